"""helm, and the chart: what is rendered from it, and how its releases are made."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.operators.programs import HELM

if TYPE_CHECKING:
    from collections.abc import Mapping

Values = dict[str, Any]

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "mpi-agents"
INSTALL_YAML = ROOT / "install.yaml"
NAMESPACE = "mpi-agents"  # install.yaml's
_KUBERNETES = "1.31.0"  # the oldest that the chart is for
_INSTALL_VALUES: Values = {"createNamespace": True, "crds": {"keep": False}}
_HEAD = """\
# mpi-agents without Helm: kubectl apply -f install.yaml
#
# Rendered from charts/mpi-agents (make install-yaml). docs/install.md says what can be changed, and how.
"""


class HelmError(Exception):
    """helm did not do it; the text is what it said."""


class Helm:
    """helm with a home of its own. Without a kubeconfig it can render, and knows no cluster."""

    def __init__(self, kubeconfig: str = "", namespace: str = NAMESPACE) -> None:
        self._kubeconfig, self._namespace = kubeconfig, namespace

    def run(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        """Run it with values, and return what it prints. Raises HelmError, SetupError."""
        program = _program()
        given = ("--values=-",) if values is not None else ()
        document: str = yaml.safe_dump(dict(values or {}))
        with tempfile.TemporaryDirectory(prefix="mpi-agents-helm-") as home:
            folders = {f"HELM_{name}_HOME": home for name in ("CACHE", "CONFIG", "DATA")}
            done = subprocess.run(
                (program, *words, f"--namespace={self._namespace}", *given),
                input=document,
                env={**os.environ, **folders, "KUBECONFIG": self._kubeconfig or os.devnull},
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise HelmError((done.stderr or done.stdout).strip())
        return done.stdout

    def template(self, values: Mapping[str, Any] | None = None, name: str = "mpi-agents") -> str:
        """What the chart is rendered to."""
        return self.run("template", name, str(CHART), f"--kube-version={_KUBERNETES}", values=values or {})


def _program() -> str:
    """The one that is built; where there is no Go, whichever is there. Raises SetupError."""
    found = None if HELM.can_be_had else shutil.which("helm")
    if found is None:
        HELM.build(print)
    return found or str(HELM.binary)


def install_yaml() -> str:
    """What `install.yaml` has to be."""
    return _HEAD + Helm().template(_INSTALL_VALUES)


if __name__ == "__main__":
    INSTALL_YAML.write_text(install_yaml())
