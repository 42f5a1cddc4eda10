"""Workers that were lost while the launcher ran: why a job failed, or a success that may be none.

Open MPI 5.0's mpirun may exit with 0 though it lost a daemon. An elastic job loses workers by design.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.operator.planning.pods import PodView
    from agents.operator.planning.view import View

_ELASTIC = ("discover_hosts", "--host-discovery-script", "--min-np", "--min-num-proc")  # horovodrun's
_NAMES_MAX = 3


def told(view: View, pod: PodView | None) -> str:
    """Say which workers were lost while `pod`, the launcher that succeeded, ran; "" if none, or if it is elastic."""
    started_at = None if pod is None else pod.started_at(view.launcher_containers)
    if started_at is None or _is_elastic(view):
        return ""
    lost = [words for index in view.wanted if (words := _loss(view, index, started_at))]
    if not lost:
        return ""
    more = f" and {len(lost) - _NAMES_MAX} more" if len(lost) > _NAMES_MAX else ""
    return (
        f"But workers were lost while the launcher ran, and its 0 may not tell of their ranks: "
        f"{', '.join(lost[:_NAMES_MAX])}{more}. See its log"
    )


def first_failure(view: View) -> str:
    """Say how the worker that failed first did, of those that are still there, as a message's end; "" if none has."""
    ends = [
        (end.at or pod.created_at, index, end.words)
        for index, pod in view.workers.items()
        if (end := pod.end(view.worker_containers, view.job.worker.restart_policy)) is not None and not end.is_success
    ]
    return f"; of its workers, the first to fail was {min(ends)[2]}" if ends else ""


def _is_elastic(view: View) -> bool:
    spec = json.dumps(view.job.launcher.template.get("spec"))
    return any(word in spec for word in _ELASTIC)


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
