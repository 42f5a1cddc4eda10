"""`demo`: a kubeflow MPIJob from its YAML to Succeeded, each step with its time, and what its launcher called."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import yaml

from .follow import Follower
from .launchers import PROGRAMS, ROOT, SetupError
from .operated import Operated

if TYPE_CHECKING:
    from .cluster import Cluster
    from .launchers import Launcher

Object = dict[str, Any]

EXAMPLE = os.path.join("examples", "kubeflow", "pi.yaml")
_CALL = re.compile(r"session=\S+ host=(\S+) seconds=(\S+) start=(\S+) exit=(\S+) result=(\S+)")  # in the hub's log
_GONE_S = 20.0


def demo(launcher: Launcher, *, workers: int, ranks_per_worker: int) -> int:
    """Show it. Returns 0, or the launcher's exit code."""
    began = time.monotonic()
    job = manifest(launcher, workers, ranks_per_worker)
    _say("mpi-agents: a kubeflow MPIJob, without ssh and without kubectl.")
    with Operated(_say, launcher) as operated:
        operated.install(launcher.implementation)
        operated.set_up()
        _say("This is the playground: its API server is a stand-in, and its pods are")
        _say(f"{operated.describe()}.")
        _say(f"Real are operator, delivery, hub, client, and {launcher.title} {launcher.version}.")
        cluster = operated.cluster
        follower = Follower(cluster, _say, lambda line: _say(f"          | {line.rstrip()}"))
        _say("")
        _say(f"$ kubectl apply -f {EXAMPLE}      (workers: {workers}, slots of each: {ranks_per_worker})")
        follower.apply(job)
        follower.until(follower.ended, operated.check)
        code = follower.exit_code()
        running = "pods?fieldSelector=status.phase=Running"
        follower.until(lambda: not _of_job(cluster, running), operated.check)
        calls = sorted(match.groups() for match in _CALL.finditer(follower.hub_log()))
        _say("$ kubectl delete mpijob pi")
        left = _delete(cluster)
    _say("")
    _show(calls)
    _say(f"Left behind by the job: {', '.join(left)}" if left else "Nothing of the job is left.")
    _say(f"All of it took {time.monotonic() - began:.1f} s.")
    return code


def manifest(launcher: Launcher, workers: int, ranks_per_worker: int) -> Object:
    """The example, for another launcher and as many workers. Raises SetupError."""
    try:
        with open(os.path.join(ROOT, EXAMPLE), encoding="utf-8") as file:
            job: Object = yaml.safe_load(file)
    except OSError as error:
        raise SetupError(f"the demo's job can't be read: {error}") from error
    spec, ranks = job["spec"], workers * ranks_per_worker
    spec["slotsPerWorker"] = ranks_per_worker
    spec["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    job["metadata"]["annotations"] = {"mpi-agents/mpi-implementation": launcher.implementation}
    program = ["pi"] if launcher.mpi else ["python", f"{PROGRAMS}/rank.py"]
    container = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["command"] = launcher.command(ranks, workers, "/etc/mpi/hostfile", program)
    return job


def _of_job(cluster: Cluster, kind: str) -> list[Object]:
    """The objects of a kind: all are the job's."""
    return list(cluster.request("GET", f"/api/v1/namespaces/default/{kind}")["items"])


def _delete(cluster: Cluster) -> list[str]:
    """Delete the job, and return what is left of it when the garbage collector has had its time."""
    cluster.request("DELETE", "/apis/kubeflow.org/v1/namespaces/default/mpijobs/pi")
    deadline = time.monotonic() + _GONE_S
    kinds = ("pods", "configmaps", "services", "serviceaccounts")
    while True:
        left = [f"{kind}/{one['metadata']['name']}" for kind in kinds for one in _of_job(cluster, kind)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _show(calls: list[tuple[str, ...]]) -> None:
    width = max((len(host) for host, *_ in calls), default=0)
    _say("What the launcher called, as the hub's log has it:")
    for host, seconds, start_s, exit_code, result in calls:
        # Open MPI 5 kills the agents that are left when all daemons have ended.
        ended = "" if result in {"ok", "signalled"} else f", {result}: exit {exit_code}"
        _say(f"  agent to {host:<{width}}  started in {start_s} s, held {seconds} s{ended}")
