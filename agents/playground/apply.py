"""`apply`, `run` and `up`: your own MPIJobs under the operator, in stand-in pods."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from . import documents, resources
from .documents import DocumentError, adapted
from .follow import Follower
from .launchers import SetupError
from .operated import Operated
from .server_process import own_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .launchers import Launcher

Object = dict[str, Any]

_LOOK_S = 0.2
_NOT_STARTED = (126, 127, 128)  # a shell's for what it can't run or find, and the stand-in's StartError


def report(text: str) -> None:
    """Progress goes to stderr: stdout is the launcher's."""
    sys.stderr.write(f"{text}\n")


def output(text: str) -> None:
    """A line of the launcher's."""
    sys.stdout.write(text)
    sys.stdout.flush()


def run(launcher: Launcher, program: Sequence[str], *, workers: int, ranks: int, slots: int, **how: Any) -> int:
    """Apply a job that runs `program` in the current folder, and follow it; the launcher's exit code."""
    with tempfile.TemporaryDirectory(prefix="mpi-playground-") as folder:
        stdin = os.path.join(folder, "stdin")
        os.mkfifo(stdin)
        threading.Thread(target=_copy_stdin, args=[stdin], daemon=True).start()
        command = launcher.command(ranks, workers, "/etc/mpi/hostfile", program)
        body = _job(launcher, ["sh", "-c", 'exec "$@" <"$0"', stdin, *command], workers, slots)
        return apply([("run", body)], launcher, **how)


def _copy_stdin(path: str) -> None:
    """Pods have no stdin of their own."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as pipe:  # the launcher may end before its input
        while data := os.read(0, 65536):
            pipe.write(data)


def _job(launcher: Launcher, command: Sequence[str], workers: int, slots: int) -> Object:
    container = {"name": "mpi", "image": "none"}
    calling = {**container, "command": command, "workingDir": os.getcwd()}
    spec = {
        "slotsPerWorker": slots,
        "mpiImplementation": launcher.implementation,
        "mpiReplicaSpecs": {
            "Launcher": {"template": {"spec": {"containers": [calling]}}},
            "Worker": {"replicas": workers, "template": {"spec": {"containers": [container]}}},
        },
    }
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "run"}, "spec": spec}


def apply(
    found: Sequence[tuple[str, Object]],
    launcher: Launcher | None,
    *,
    folder: str | None = None,
    verbose: bool = False,
    has_containers: bool = False,
) -> int:
    """Apply manifests, each given with its file, and follow their jobs; the launcher's exit code.

    Raises DocumentError, and as `Operated`.
    """
    jobs = documents.jobs(found)
    name, times = Counter(f"{job.namespace}/{job.name}" for job in jobs).most_common(1)[0]
    if times > 1:
        raise DocumentError([f"{times} jobs are called {name}: apply one at a time"])
    for job in jobs:
        if launcher is not None and job.implementation != launcher.implementation:
            raise DocumentError([f"job {job.name} is made for {job.implementation}, not for {launcher.name}"])
    with Operated(report, launcher, has_containers=has_containers) as operated:
        for implementation in dict.fromkeys(str(job.implementation) for job in jobs):
            operated.install(implementation)
        operated.set_up(folder)
        pods = "made of containers" if has_containers else "processes of this machine"
        kubeconfig = operated.cluster.kubeconfig()
        report(f"a stand-in cluster in {operated.cluster.folder}; its pods are {pods}; export KUBECONFIG={kubeconfig}")
        follower = Follower(operated.cluster, report, output)
        changed = [(body, []) if has_containers else adapted(body) for _file, body in found]
        for line in (line for _body, lines in changed for line in lines):
            report(line)
        for job in jobs:
            if job.debug is not None or job.policy.is_suspended or job.dialect.never_ends:
                report(f"job {job.name} waits for you: export KUBECONFIG={kubeconfig}; Ctrl-C ends it")
        follower.apply(*(body for body, _lines in changed))
        follower.until(follower.ended, operated.check)
        if verbose:
            _show_logs(operated, follower)
        _show_why(follower.failed(), kubeconfig)
        code = follower.exit_code()
        if code in _NOT_STARTED and not has_containers:
            report("pods have no images here: what they run has to be on this machine, by PATH or by its path")
        return code


def _show_why(job: Object | None, kubeconfig: str) -> None:
    """Say what a job died of: the cluster is gone before its user can ask. By a process, as we import no client."""
    if job is None:
        return
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    asked = ["why", name, "--namespace", namespace, "--kubeconfig", kubeconfig]
    sys.stderr.flush()
    subprocess.run([sys.executable, "-m", "agents.kubectl_mpi", *asked], stdout=2, env=own_environment(), check=False)


def _show_logs(operated: Operated, follower: Follower) -> None:
    with open(operated.log, encoding="utf-8", errors="replace") as log:
        sys.stderr.write(log.read())
    sys.stderr.write(follower.hub_log())


def up(launcher: Launcher, folder: str | None = None) -> int:
    """Start the cluster and the operator, and say how to use them; ends with 130, or as TERM does.

    What runs a job is installed when the job is there.
    """
    with Operated(report, launcher) as operated:
        operated.install(launcher.implementation)
        operated.set_up(folder)
        cluster = operated.cluster
        sys.stdout.write(
            "A stand-in API server with the operator for MPIJobs. It has no images: containers run this machine's\n"
            f"programs, and the MPI that their job is made for; pods are\n{operated.describe()}.\n"
            f"  export KUBECONFIG={cluster.kubeconfig()}\n"
            "  kubectl apply -f examples/kubeflow/pi.yaml\n"
            "  kubectl get mpijobs,pods\n"
            "  kubectl wait --for=condition=Succeeded --timeout=5m mpijobs.kubeflow.org/pi\n"
            "  kubectl logs pi-launcher\n"
            "Jobs by ssh (v2beta1 and T9k) run here with the annotation mpi-agents/transport: exec, T9k's without a\n"
            "home of MPI (mpiHome, mpiConfig.home).\n"
            f"The operator's log: {operated.log}\n"
            "Ctrl-C ends it.\n"
        )
        sys.stdout.flush()
        version = 0
        while True:
            operated.check()
            time.sleep(_LOOK_S)
            for _key, _kind, found in cluster.changes(version, [resources.MPI_JOBS.key]):
                version = int(found["metadata"]["resourceVersion"])
                job = documents.job_of(found)
                if not isinstance(job, tuple):
                    try:
                        operated.install(str(job.implementation))
                    except SetupError as error:
                        report(str(error))
