"""`apply` and `up`: one's own MPIJobs under the operator, in stand-in pods."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from .follow import Follower
from .job import describe
from .operated import Operated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .launchers import Launcher


def tell(text: str) -> None:
    """Progress goes to stderr: stdout is the launcher's."""
    sys.stderr.write(f"{text}\n")


def output(text: str) -> None:
    """A line of the launcher's."""
    sys.stdout.write(text)
    sys.stdout.flush()


def apply(launcher: Launcher, files: Sequence[str], *, folder: str | None = None, verbose: bool = False) -> int:
    """Apply the files and follow their jobs; the launcher's exit code."""
    texts = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            texts.append(file.read())
    with Operated(launcher, tell) as operated:
        operated.set_up(folder)
        follower = Follower(operated.client, tell, output)
        for text in texts:
            follower.apply(text)
        follower.until(follower.ended, operated.check)
        if verbose:
            with open(operated.log, encoding="utf-8", errors="replace") as log:
                sys.stderr.write(log.read())
        return follower.exit_code()


def up(launcher: Launcher, folder: str | None = None) -> int:
    """Start the cluster and the operator, and say how to use them; ends with 130, or as TERM does."""
    with Operated(launcher, tell) as operated:
        operated.set_up(folder)
        cluster = operated.cluster
        sys.stdout.write(
            "A stand-in API server with the operator for MPIJobs. It has no images: containers run this machine's\n"
            f"programs and {launcher.title} {launcher.version}; pods are\n{describe(cluster)}.\n"
            f"  export KUBECONFIG={cluster.kubeconfig()}\n"
            "  kubectl apply -f examples/kubeflow/pi.yaml; kubectl get mpijob,pods -w; kubectl logs -f pi-launcher\n"
            "Jobs by ssh (v2beta1 and T9k) run here with the annotation mpi-agents/transport: exec.\n"
            f"The operator's log: {operated.log}\n"
            "Ctrl-C ends it.\n"
        )
        sys.stdout.flush()
        while True:
            signal.pause()
