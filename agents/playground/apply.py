"""`apply` and `up`: one's own MPIJobs under the operator, in stand-in pods."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING

from agents.job.model import Implementation

from . import documents
from .adapted import adapted, job_of
from .follow import Follower
from .job import JobError, describe
from .launchers import DEFAULTS, LAUNCHERS
from .operated import Operated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .launchers import Launcher

_NOT_STARTED = (126, 127, 128)  # a shell's for what it can't run or find, and the stand-in's StartError


def tell(text: str) -> None:
    """Progress goes to stderr: stdout is the launcher's."""
    sys.stderr.write(f"{text}\n")


def output(text: str) -> None:
    """A line of the launcher's."""
    sys.stdout.write(text)
    sys.stdout.flush()


def apply(launcher: Launcher | None, files: Sequence[str], *, folder: str | None = None, verbose: bool = False) -> int:
    """Apply the files and follow their jobs; the launcher's exit code.

    Without a launcher the pods have what the first job is made for. Raises DocumentError, and as `Operated`.
    """
    bodies = [body for name in files for body in documents.read(name)]
    jobs = [job for body in bodies if (job := job_of(body)) is not None]
    name, times = Counter(f"{job.namespace}/{job.name}" for job in jobs).most_common(1)[0] if jobs else ("", 0)
    if times > 1:
        raise JobError(f"{times} jobs of {', '.join(files)} are called {name}: apply one at a time")
    launcher = launcher or LAUNCHERS[DEFAULTS[jobs[0].implementation if jobs else Implementation.OPEN_MPI]]
    for job in jobs:
        if launcher.mpi and job.implementation != launcher.implementation:
            tell(
                f"job {job.name} is made for {job.implementation}, and its pods have {launcher.title} here: "
                f"its ranks may all run in the launcher (try --launcher {DEFAULTS[job.implementation]})"
            )
    with Operated(launcher, tell) as operated:
        operated.set_up(folder)
        follower = Follower(operated.client, tell, output)
        changed = [adapted(body) for body in bodies]
        for line in (line for one in changed for line in one.lines):
            tell(line)
        for job in jobs:
            if job.debug is not None or job.policy.is_suspended:
                tell(f"job {job.name} waits for you: export KUBECONFIG={operated.cluster.kubeconfig()}; Ctrl-C ends it")
        follower.apply(*(one.body for one in changed))
        if not follower.has_jobs:
            raise JobError(f"no MPIJob is in {', '.join(files)}: apply runs MPIJobs, and `up` is there for kubectl")
        follower.until(follower.ended, operated.check)
        if verbose:
            with open(operated.log, encoding="utf-8", errors="replace") as log:
                sys.stderr.write(log.read())
        code = follower.exit_code()
        if code in _NOT_STARTED:
            tell("pods have no images here: what they run has to be on this machine, by PATH or by its path")
        return code


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
            "Jobs by ssh (v2beta1 and T9k) run here with the annotation mpi-agents/transport: exec, T9k's without a\n"
            "home of MPI (mpiHome, mpiConfig.home).\n"
            f"The operator's log: {operated.log}\n"
            "Ctrl-C ends it.\n"
        )
        sys.stdout.flush()
        while True:
            signal.pause()
