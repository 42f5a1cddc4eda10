"""The two operators as processes beside a cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cluster.definition import defined
from tests.cluster.local.daemons import until
from tests.cluster.operators.programs import MPI_OPERATOR_V2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.local.daemons import Daemon

THEIRS, OURS = f"mpi-operator {MPI_OPERATOR_V2.version}", "ours"
LEASES = ("mpi-operator", "mpi-agents-operator")  # in `default`
_START_S = 60.0
_RAISED = 1000  # with their defaults, 5 requests and 10 jobs a second, theirs takes a quarter of an hour


@dataclass(frozen=True)
class Peer:
    """An operator. `spec` is what its jobs have besides; it works when its log has the words `ready`."""

    name: str
    program: tuple[str, ...]
    ready: str
    definition: dict[str, Any]  # of its kind
    spec: Mapping[str, Any] = field(default_factory=dict)

    def command(self, kubeconfig: str | Path) -> tuple[str, ...]:
        """How it is started for a cluster."""
        return ("env", f"KUBECONFIG={kubeconfig}", *self.program)

    def start(self, daemon: Daemon) -> None:
        """Start it, and wait until it works. Raises SetupError."""
        daemon.start()
        until(f"{daemon.name}'s start", lambda: self.ready in daemon.log.read_text(errors="replace"), _START_S, daemon)


_LIMITS = (
    *(f"-kube-api-qps={_RAISED}", f"-kube-api-burst={_RAISED}"),
    *(f"-controller-queue-rate-limit={_RAISED}", f"-controller-queue-burst={_RAISED}"),
)


def peers(image: str, *, is_raised: bool = True) -> tuple[Peer, Peer]:
    """Return theirs, with its limits raised or as its manifest has it, and ours, with our image where it is ours."""
    ours = (str(Path(sys.executable).with_name("mpi-operator")), f"--image={image}", "--port=0")
    (definition,) = MPI_OPERATOR_V2.kinds()
    theirs = (str(MPI_OPERATOR_V2.binary), "-lock-namespace=default", *(_LIMITS if is_raised else ()))
    return (
        Peer(THEIRS, theirs, "Started workers", definition),
        Peer(OURS, (*ours, "--lease-namespace=default"), "caches synced", defined.ours(), {"transport": "exec"}),
    )
