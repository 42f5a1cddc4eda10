"""Workers that were lost while the launcher ran, or never used: they explain a failure, or put a success in doubt.

Open MPI 5.0's mpirun may exit with 0 though it lost a daemon. With exec the hub knows how each daemon ended, and
reports at its end which were lost while the launcher's last mpirun ran (`rshagent.hub.cuts`). With SSH, or if
the hub was killed, only the workers' pods show it. An elastic job loses workers by design.

The hub also reports if no session was asked of it, and with SSH delivery if nobody opened the launcher's key: then
mpirun ran alone in the launcher, if at all.
"""

from __future__ import annotations

import json

from agents.common.termination import VERSION
from agents.common.text import one_line
from agents.job.json_object import Object, mapping, mappings, part
from agents.job.model import Tool, Transport
from agents.operator import objects
from agents.operator.objects import names
from agents.operator.planning.pods import PodView
from agents.operator.planning.view import View

_ELASTIC = ("discover_hosts", "--host-discovery-script", "--min-np", "--min-num-proc")  # horovodrun's
_NAMES_MAX = 3
_NUMBER_MAX = 1e12


def lost_ranks(view: View, pod: PodView) -> str:
    """Return which ranks were lost while the last mpirun of `pod` ran, as its hub reports; "" if none or if elastic."""
    if pod.hub is None or pod.hub.state != "terminated" or is_elastic(view):
        return ""
    reported = part(_load(pod.hub.message), "ranksLost")
    started_at = pod.started_at(view.launcher_containers) or 0.0
    lost = [one for one in mappings(reported.get("lost")) if _number(one.get("at")) >= int(started_at)]
    if not lost:  # or in an earlier run of the container
        return ""
    more = int(_number(reported.get("count"))) - min(len(lost), _NAMES_MAX)
    named = (f"{one_line(str(one.get('worker')))} ({one_line(str(one.get('cause')))})" for one in lost[:_NAMES_MAX])
    return f"{', '.join(named)}{f' and {more} more' if more > 0 else ''}"


def doubts(view: View, pod: PodView | None) -> str:
    """Return which workers were lost while `pod`, the launcher that succeeded, ran; "" if none or if elastic."""
    started_at = None if pod is None else pod.started_at(view.launcher_containers)
    if pod is None or started_at is None or is_elastic(view):
        return ""
    if ranks := lost_ranks(view, pod):
        return f"Ranks were lost while mpirun ran: {ranks}. See the launcher's log"
    lost = [loss for index in view.wanted if (loss := _loss(view, index, started_at))]
    if not lost:
        return ""
    more = f" and {len(lost) - _NAMES_MAX} more" if len(lost) > _NAMES_MAX else ""
    return (
        f"Workers were lost while the launcher ran, so exit code 0 may hide failed ranks: "
        f"{', '.join(lost[:_NAMES_MAX])}{more}. See the launcher's log"
    )


def unused(view: View, pod: PodView | None) -> str:
    """Return that `pod`, the launcher that succeeded, started nothing in the workers; "" if it did, or may have.

    It may have by other means than the hub: with a token of its own, or with the real kubectl. A launcher that is a
    worker too may have ranks enough.
    """
    job = view.job
    if pod is None or job.debug is not None or job.launcher_is_worker or not view.wanted:
        return ""
    if job.transport is Transport.SSH:
        reporter = pod.sidecar(names.DELIVERY)
    else:
        has_others = objects.has_api_token(job) or Tool.KUBECTL in objects.tools(job, view.settings)
        reporter = None if has_others else pod.hub
    sessions = None if reporter is None or reporter.state != "terminated" else _load(reporter.message).get("sessions")
    if sessions is False or sessions != 0:
        return ""
    return (
        f"The launcher exited with 0 and started nothing in the job's {len(view.wanted)} workers: all its ranks ran in"
        f" the launcher. Did mpirun read the hostfile, and is it {job.implementation}'s (mpiImplementation)? See the"
        " launcher's log"
    )


def first_failure(view: View) -> str:
    """Return how the first worker failed, of those that still exist, to append to a message; "" if none has."""
    ends = [
        (end.at or pod.created_at, index, end.message)
        for index, pod in view.workers.items()
        if (end := view.worker_end(pod)) is not None and not end.is_success
    ]
    return f"; of its workers, the first to fail was {min(ends)[2]}" if ends else ""


def is_elastic(view: View) -> bool:
    """Whether the launcher keeps running without workers that it loses."""
    spec = json.dumps(view.job.launcher.template.get("spec"))
    return any(word in spec for word in _ELASTIC)


def _load(message: str) -> Object:
    """Return what a hub's termination message says. Whatever else stands there says nothing."""
    try:
        found = mapping(json.loads(message))
    except (ValueError, RecursionError):
        return {}
    return found if found.get("version") == VERSION else {}


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and 0 <= value < _NUMBER_MAX else 0.0


def _loss(view: View, index: int, started_at: float) -> str:
    pod, name = view.workers.get(index), f"worker-{index}"
    if pod is None:
        return f"{name} is gone"
    if pod.is_going:
        return f"{name} is being deleted"
    if pod.phase == "Failed":
        return f"{name} failed"
    if pod.created_at > started_at:
        return f"{name} was replaced, or added"
    restart = pod.last_restart(view.worker_containers)
    return f"{name} was restarted ({restart[1]})" if restart is not None and restart[0] >= started_at else ""
