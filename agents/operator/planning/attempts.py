"""The launcher's failed attempts, as the status lists them: their pods may be gone long before somebody looks.

An attempt is a run of the launcher's containers, in a pod of its own or restarted in place. `failedAttempts` has the
newest of them, with the last lines of each; how many there were is `replicaStatuses.Launcher.failed`, or the pod's
restarts.
"""

from __future__ import annotations

from agents.job.conditions import one_line
from agents.job.json_object import Body, Object, mappings, part
from agents.job.model import RestartPolicy
from agents.job.status import format_time, seconds
from agents.operator.planning.pods import End, PodView
from agents.operator.planning.view import View

FIELD = "failedAttempts"
_LISTED_MAX = 8
_EXIT_CODES = range(256)
_NAME_MAX, _MESSAGE_MAX = 253, 768  # characters; ours are shorter, and users can write a status


def failed(view: View) -> list[Body]:
    """Return the attempts that the status knows and those that the pods show, the oldest first."""
    found = {_key(one): one for one in _known(view)}
    for pod in _pods(view):
        for end in _ends(view, pod):
            code = {} if end.exit_code is None else {"exitCode": end.exit_code}
            ended = {"pod": pod.name, "endedAt": format_time(end.at or pod.created_at)}
            found[_key(ended)] = {**ended, **code, "message": end.message}
    return sorted(found.values(), key=_key)[-_LISTED_MAX:]


def last(view: View) -> str:
    """Return how the last attempt of the launcher's present Job failed; "" if that is not known."""
    since = seconds(part(view.observed.launcher_job, "metadata").get("creationTimestamp")) or 0.0
    names = {pod.name for pod in _pods(view)}
    found = failed(view)[-1:]
    return "".join(one["message"] for one in found if one["pod"] in names or (seconds(one["endedAt"]) or 0.0) >= since)


def _pods(view: View) -> list[PodView]:
    return [*([view.gone_launcher] if view.gone_launcher else []), *view.launchers]


def _known(view: View) -> list[Body]:
    """Return the attempts that the status lists: as we write them, whoever wrote it."""
    listed = mappings(view.status.get(FIELD))[-_LISTED_MAX:]
    times = ((one, seconds(one.get("endedAt"))) for one in listed)
    return [
        {
            "pod": one_line(str(one.get("pod")))[:_NAME_MAX],
            "endedAt": format_time(at),
            **({"exitCode": int(one["exitCode"])} if one.get("exitCode") in _EXIT_CODES else {}),
            "message": one_line(str(one.get("message"))[:_MESSAGE_MAX]),
        }
        for one, at in times
        if at is not None
    ]


def _ends(view: View, pod: PodView) -> list[End]:
    """Return the attempts that failed in a pod: those before its containers' restarts, and the last, which is one."""
    policy, end = view.job.launcher.restart_policy, view.launcher_end(pod)
    # A Job that has given up deletes the pod, in which the kubelet may have started the containers again.
    is_cut = end is not None and pod.is_interrupted(end.at) and pod.restarts(view.launcher_containers) > 0
    last = [] if end is None or end.is_success or is_cut else [end]
    is_one = end is not None or policy in (RestartPolicy.NEVER, RestartPolicy.EXIT_CODE)  # of all its containers
    return [*pod.failures(view.launcher_containers, has_ended=is_one), *last]


def _key(attempt: Object) -> tuple[str, str]:
    """Return what tells an attempt from others, and orders them all: else two plans might list different ones."""
    return str(attempt["endedAt"]), str(attempt["pod"])
