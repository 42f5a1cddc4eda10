"""An image that does what kubeflow's own kubectl-delivery does, to compare with and to switch back to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.local.build import run
from tests.cluster.operators.mpijob import KUBECTL, OURS_WITH_KUBECTL

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.local.engine import Engine
    from tests.cluster.local.places import Places

_FOLDER = Path(__file__).parent


def build(places: Places, engine: Engine, say: Callable[[str], None]) -> str:
    """Build it from our image with kubectl, and return its name. Raises SetupError."""
    where = ("--file", str(_FOLDER / "kubectl-delivery.Dockerfile"), str(_FOLDER / "kubeflow"))
    source = ("--build-arg", f"KUBECTL={OURS_WITH_KUBECTL}")
    run(places, "docker", "build", "--tag", KUBECTL, *source, *where, env=engine.environment, say=say)
    return KUBECTL
