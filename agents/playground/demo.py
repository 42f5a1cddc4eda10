"""`demo`: a kubeflow MPIJob from its YAML to Succeeded, and then what happened and how long each step took."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any

import yaml

from .follow import Follower
from .launchers import PROGRAMS
from .operated import JobError, Operated, describe

if TYPE_CHECKING:
    from .launchers import Launcher

Object = dict[str, Any]

EXAMPLE = os.path.join("examples", "kubeflow", "pi.yaml")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
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
        _say(f"{describe(operated.cluster)}.")
        _say(f"Real are operator, delivery, hub, client, and {launcher.title} {launcher.version}.")
        steps = [("API server, operator started", time.monotonic() - began)]
        follower = Follower(operated.cluster, operated.client, _say, lambda line: _say(f"          | {line.rstrip()}"))
        _say("")
        _say(f"$ kubectl apply -f {EXAMPLE}      (workers: {workers}, slots of each: {ranks_per_worker})")
        follower.apply(job)
        follower.until(follower.ended, operated.check)
        code = follower.exit_code()
        follower.until(lambda: not follower.workers_left(), operated.check)
        steps += [(f"job {name}", seconds) for name, seconds in follower.marks.items()]
        calls = sorted(match.groups() for match in _CALL.finditer(follower.hub_log()))
        _say("$ kubectl delete mpijob pi")
        left = _delete(operated)
    _say("")
    _table([*steps, ("in all", time.monotonic() - began)])
    _say("")
    _show(calls)
    _say(f"Left behind by the job: {', '.join(left)}" if left else "Nothing of the job is left.")
    return code


def manifest(launcher: Launcher, workers: int, ranks_per_worker: int) -> Object:
    """The example, for another launcher and as many workers. Raises JobError."""
    try:
        with open(os.path.join(_ROOT, EXAMPLE), encoding="utf-8") as file:
            job: Object = yaml.safe_load(file)
    except OSError as error:
        raise JobError(f"the demo's job can't be read: {error}") from error
    spec, ranks = job["spec"], workers * ranks_per_worker
    spec["slotsPerWorker"] = ranks_per_worker
    spec["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    job["metadata"]["annotations"] = {"mpi-agents/mpi-implementation": launcher.implementation}
    program = ["pi"] if launcher.mpi else ["python", f"{PROGRAMS}/rank.py"]
    container = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["command"] = launcher.command(ranks, workers, "/etc/mpi/hostfile", program)
    return job


def _delete(operated: Operated) -> list[str]:
    """Delete the job, and return what is left of it when the garbage collector has had its time."""
    operated.client.delete("/apis/kubeflow.org/v1/namespaces/default/mpijobs/pi")
    deadline = time.monotonic() + _GONE_S
    kinds = ("pods", "configmaps", "services", "serviceaccounts")
    while True:
        lists = {kind: operated.client.list(f"/api/v1/namespaces/default/{kind}")["items"] for kind in kinds}
        left = [f"{kind}/{one['metadata']['name']}" for kind, items in lists.items() for one in items]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _table(rows: list[tuple[str, float]]) -> None:
    width = max(len(name) for name, _seconds in rows)
    _say(f"{'step':<{width}}  seconds (of the job: since it was applied)")
    for name, seconds in rows:
        _say(f"{name:<{width}}  {seconds:7.2f}")


def _show(calls: list[tuple[str, ...]]) -> None:
    width = max((len(host) for host, *_ in calls), default=0)
    _say("What the launcher called, as the hub's log has it:")
    for host, seconds, start_s, exit_code, result in calls:
        # Open MPI 5 kills the agents that are left when all daemons have ended.
        ended = "" if result in {"ok", "signalled"} else f", {result}: exit {exit_code}"
        _say(f"  agent to {host:<{width}}  started in {start_s} s, held {seconds} s{ended}")
