"""Kinds of broken jobs: each is a healthy job with one change. What is said of them is in `said`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.healthy import SSHD
from tests.cluster.images import image
from tests.cluster.manifests import KubeflowJob, set_environ

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]


def program(job: KubeflowJob, *words: str, ranks: int = 1) -> None:
    """Have mpirun start another program."""
    start = job.main["command"][:-1]
    job.command(*start[:-1], str(ranks), *words)


def worker_runs(job: KubeflowJob, script: str, restart: str = "Never") -> None:
    job.worker["containers"][0] |= {"command": ["/bin/sh", "-c", script]}
    job.spec["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = restart


def worker_has(job: KubeflowJob, **fields: Any) -> None:
    job.worker["containers"][0] |= fields


def asks_for(job: KubeflowJob, resource: str, amount: str) -> None:
    worker_has(job, resources={"requests": {resource: amount}, "limits": {resource: amount}})


def mounts(job: KubeflowJob, **source: Object) -> None:
    job.worker["volumes"] = [{"name": "data", **source}]
    worker_has(job, volumeMounts=[{"name": "data", "mountPath": "/data"}])


def limit_memory(job: KubeflowJob) -> None:
    worker_has(job, resources={"limits": {"memory": "64Mi"}})
    program(job, "sh", "-c", "tail /dev/zero")


def refuse_root(job: KubeflowJob) -> None:
    job.launcher["securityContext"] = {"runAsUser": 0}
    job.main.pop("securityContext", None)
    job.main["env"] = [one for one in job.main.get("env", ()) if "RUN_AS_ROOT" not in one["name"]]


def want_slots(job: KubeflowJob) -> None:
    set_environ(job.main, {"OMPI_MCA_rmaps_base_oversubscribe": "0"})
    program(job, "pi", ranks=10)


def lack_daemon(job: KubeflowJob) -> None:
    worker = job.worker["containers"][0]
    if "command" in worker and "sshd" in worker["command"][-1]:
        worker_runs(job, f"rm /usr/bin/orted; {worker['command'][-1]}")
    else:  # another MPI's; the operator starts sshd where there is one
        worker_has(job, image=image("mpich-ssh" if "-ssh" in worker["image"] else "mpich"))


def crash_worker(job: KubeflowJob) -> None:
    worker_runs(job, "echo out of luck; exit 1", "OnFailure")
    worker_has(job, readinessProbe={"exec": {"command": ["false"]}})  # without it, it may be ready until it ends


def retry(job: KubeflowJob) -> None:
    job.spec["runPolicy"]["backoffLimit"] = 1
    job.spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "OnFailure"
    job.command("sh", "-c", "echo out of luck; exit 1")


def evict(job: KubeflowJob) -> None:
    job.worker["volumes"] = [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]
    worker_has(job, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    program(job, "sh", "-c", "head -c 50000000 /dev/zero > /data/x; sleep 600")


def abort(job: KubeflowJob) -> None:
    """Its second rank expects other bytes than the first one sends, and calls MPI_Abort."""
    program(job, "pingpong", "8", "1", ":", "-n", "1", "pingpong", "16", "1")


def be_late(job: KubeflowJob) -> None:
    job.spec["runPolicy"]["activeDeadlineSeconds"] = 20
    program(job, "sleep", "600")


def expose(job: KubeflowJob) -> None:
    worker_has(job, securityContext={"privileged": True})


BREAKS: dict[str, Callable[[KubeflowJob], object]] = {
    "image can't be pulled": lambda job: worker_has(job, image="example.invalid/none:1"),
    "image's name is invalid": lambda job: worker_has(job, image="No/Such:Name:At:All"),
    "too many CPUs": lambda job: asks_for(job, "cpu", "1000"),
    "no such GPU": lambda job: asks_for(job, "nvidia.com/gpu", "1"),
    "no such node": lambda job: job.worker.update(nodeSelector={"example.com/no": "such"}),
    "quota": lambda job: None,
    "Pod Security": expose,
    "missing ConfigMap": lambda job: worker_has(job, envFrom=[{"configMapRef": {"name": "no-such"}}]),
    "missing Secret": lambda job: mounts(job, secret={"secretName": "no-such"}),
    "missing claim": lambda job: mounts(job, persistentVolumeClaim={"claimName": "no-such"}),
    "worker crashes": crash_worker,
    "worker's memory": limit_memory,
    "launcher's program": lambda job: job.command("no-such-program"),
    "ranks' program": lambda job: program(job, "no-such-program"),
    "launcher exits with 3": lambda job: job.command("sh", "-c", "echo out of luck; exit 3"),
    "rank exits with 7": lambda job: program(job, "sh", "-c", "exit 7"),
    "rank crashes": lambda job: program(job, "sh", "-c", "kill -SEGV $$$$"),
    "rank aborts": abort,
    "root": refuse_root,
    "slots": want_slots,
    "no MPI in the worker": lack_daemon,
    "no sshd": lambda job: worker_runs(job, "sleep 600"),
    "keys refused": lambda job: worker_runs(job, f"{SSHD} -o StrictModes=no -o AuthorizedKeysFile=none"),
    "too late": be_late,
    "suspended": lambda job: job.spec["runPolicy"].update(suspend=True),
    "/dev/shm": lambda job: program(job, "sh", "-c", "head -c 100000000 /dev/zero > /dev/shm/x"),
    "hangs": lambda job: program(job, "sleep", "600"),
    "fails again and again": retry,
    "evicted": evict,
}
