"""A healthy job of each operator, and what every command of `kubectl mpi` does with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from tests.cluster.faults import until
from tests.cluster.kubectl_mpi import kubectl_mpi
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.said import EXEC, MPI_OPERATOR, SSH, TRAINING_OPERATOR
from tests.cluster.ssh.sshjob import SshJob

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kube import Namespace

SSHD = "mkdir -p /run/sshd; exec /usr/sbin/sshd -De"
# Their launchers start before their workers do, and their users wait for these in some such way.
_WAITS = (
    "/opt/kube/kubectl wait pod --for=condition=Ready --timeout=300s "
    "-l training.kubeflow.org/job-name=$JOB,training.kubeflow.org/replica-type=worker >&2; exec"
)
# A name is there when its pod is ready and DNS has heard of it.
_NAMED = "while read host _; do until getent hosts $host; do sleep 1; done; done </etc/mpi/hostfile >&2"


def healthy(operator: str, name: str = "pi") -> MpiJob:
    """A job of one worker as users of an operator write it; a failed launcher is not tried again.

    The launcher's command ends with mpirun's `-n RANKS PROGRAM`.
    """
    if operator in {EXEC, TRAINING_OPERATOR}:
        job = MpiJob("v2beta1" if operator == EXEC else "v1", workers=1)
    else:
        job = SshJob(workers=1)
    job.body["metadata"]["name"] = name
    if operator != TRAINING_OPERATOR:  # which with this deletes all pods of a job that fails
        job.policy["backoffLimit"] = 0
    job.spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    if operator == MPI_OPERATOR:
        del job.spec["transport"]
        job.spec["launcherCreationPolicy"] = "WaitForWorkersReady"
        job.worker["containers"][0]["command"] = ["/bin/sh", "-c", f"{SSHD} -o StrictModes=no"]
        options = "-o StrictHostKeyChecking=no -o ConnectionAttempts=10"  # Ready doesn't mean that sshd listens
        mpirun = ["mpirun", "--mca", "plm_rsh_args", options, *job.main["command"][1:]]
        job.command("/bin/sh", "-c", f'{_NAMED}; exec "$@"', "sh", *mpirun)
    if operator == TRAINING_OPERATOR:
        job.command("/bin/sh", "-c", f'JOB={name}; {_WAITS} "$@"', "sh", *job.main["command"])
    return job


class Commands:
    """`kubectl mpi` in a namespace."""

    def __init__(self, namespace: Namespace, folder: Path) -> None:
        self._namespace, self._folder = namespace, folder

    def run(self, verb: str, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Call it; return stdout, or stderr if it is to fail with a code."""
        return kubectl_mpi(self._namespace, verb, *arguments, code=code, stdin=stdin)

    def on_a_healthy_job(self, operator: str) -> None:
        """See what each command says of a job that runs, and then of one that has succeeded."""
        job = healthy(operator).gated()
        assert self.run("submit", "-f", "-", stdin=yaml.safe_dump(job.body)) == "mpijob.kubeflow.org/pi created\n"
        self._until_it_runs("pi")
        listed = json.loads(self.run("list", "-o", "json"))
        assert [(one["name"], one["state"], one["ready"]) for one in listed] == [("pi", "Running", 1)]
        assert "pi-worker-0" in self.run("status", "pi")
        assert self.run("exec", "--worker", "0", "pi", "hostname") == "pi-worker-0\n"
        assert "exit code 5" in self.run("exec", "pi", "sh", "-c", "exit 5", code=5)
        assert [one for one in json.loads(self.run("doctor", "pi", "-o", "json")) if one["level"] == "fail"] == []
        self.run("cp", "--worker", "0", "pi:/etc/hostname", f"{self._folder}/name")
        assert (self._folder / "name").read_text() == "pi-worker-0\n"
        for command in ("top", "stacks") if operator != SSH else ():  # its worker agents show processes, if not all
            assert "workerAgent" in self.run(command, "pi", code=1)
        self.run("exec", "pi", "touch", "/tmp/go")
        assert "pi succeeded after" in self.run("wait", "pi", "--timeout", "3m")
        assert "rank 0 of 1 on pi-worker-0\n" in self.run("logs", "pi")
        assert self.run("attach", "pi").count("pi is approximately 3.14159265") == 1
        status = json.loads(self.run("status", "pi", "-o", "json"))
        assert (status["summary"]["state"], status["exit_code"]) == ("Succeeded", 0)
        assert "MPIJob/pi" in self.run("events", "pi")
        assert "pi succeeded" in self.run("why", "pi")
        self._again()

    def _until_it_runs(self, job: str) -> None:
        """On a ready worker: some launchers run before it is."""
        self.run("wait", job, "--for", "running", "--timeout", "3m")
        until(f"{job} runs", lambda: f"{job} has been running for" in self.run("why", job))

    def _again(self) -> None:
        """Run it again, pause it, resume it, and delete both."""
        assert self.run("rerun", "pi") == "mpijob.kubeflow.org/pi-2 created\n"
        self._until_it_runs("pi-2")
        assert self.run("pause", "pi-2") == "mpijob.kubeflow.org/pi-2 paused\n"
        self._namespace.until(lambda pods: not any(name.startswith("pi-2-") for name in pods), "its pods are gone")
        assert "pi-2 is suspended and has no pods." in self.run("why", "pi-2")
        assert self.run("resume", "pi-2") == "mpijob.kubeflow.org/pi-2 resumed\n"
        self._until_it_runs("pi-2")
        self.run("exec", "pi-2", "touch", "/tmp/go")
        assert "pi-2 succeeded" in self.run("wait", "pi-2", "--timeout", "3m")
        path = self._folder / "bundle.tar.gz"
        assert self.run("bundle", "pi-2", "-o", str(path)) == f"{path}\n"
        self.run("delete", "pi", "pi-2")
        assert self.run("list", "-o", "name") == ""
