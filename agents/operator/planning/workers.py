"""Plans worker pods: which are created, replaced and deleted.

What happens to a worker pod while the job needs it:

| pod | Never, OnFailure, Always | ExitCode |
|---|---|---|
| is not there | made | made |
| evicted, preempted, its node is gone | replaced | replaced |
| its program ended with 1 to 127 | replaced | job failed |
| its program ended with 128 or more | replaced | replaced |
| its program ended with 0 (Succeeded) | left as it is | left as it is |
| it was started as an sshd, and ended with 0 | replaced | replaced |
| is being deleted | created again when it is gone | the same |

`Never` is for the kubelet: it restarts no container in its pod. kubeflow has it as the workers' default
and lets the job hang on a failed one; here another pod comes. For a Succeeded one no other comes with kubeflow by any
policy (v0.8.2, getOrCreateWorker), nor here: a script may have done its work. An sshd has none to do. It ends with 0
on SIGTERM, which the kubelet sends after a failed liveness probe, and the launcher's next try needs it.

The first replacement comes at once, but that of an sshd which ended with 0 after 10 s: a launcher may have ended it as
its last act. The next one waits 10 s, and twice as long after each further one, 5 minutes at most. A pod that lived for
10 minutes cleared the score, which stands in its annotation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.job.json_object import Body
from agents.job.model import PREFIX, RestartPolicy, WorkerUpdate
from agents.kube.kinds import POD
from agents.operator import objects
from agents.operator.actions import Create, Delete
from agents.operator.objects import names
from agents.operator.planning import launcher
from agents.operator.planning.pods import End, PodView
from agents.operator.planning.view import View

RESTARTS = f"{PREFIX}restarts"  # annotation: how many pods of this name have failed one after the other before it

_FIRST_DELAY_S = 10
_LONGEST_DELAY_S = 300
_LONG_LIFE_S = 600
_PARTS_MAX, _OUR_PARTS = 50_000, 100  # objects in all pods that one plan makes, and those of ours in each
_LEAST_AT_ONCE = 4  # of however large a template
_END_S = 10  # for sidecars to end behind their pod's program, and for a launcher that ended its sshds to end itself


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the workers. `deletes` come before `creates`."""

    deletes: tuple[Delete, ...] = ()
    creates: tuple[Create, ...] = ()
    evicted: int = 0  # of those that are replaced now
    outdated: tuple[int, ...] = ()  # not replaced although their template has changed
    requeue_at: float | None = None
    failure: str = ""  # why the job has failed by a worker


def changes(view: View) -> Changes:
    """Return the changes that lead to exactly the wanted workers."""
    failed = {index: end for index in view.wanted if (end := _failure(view, index)) is not None}
    permanent = [end for index, end in failed.items() if _is_permanent(view, view.workers[index], end)]
    if permanent:
        message = f"MPIJob {view.job.name} is failed because {len(permanent)} Worker replica(s) failed"
        return Changes(failure=f"{message}: {permanent[0].message}")
    due_at = {index: _replaced_at(view.workers[index], end) for index, end in failed.items()}
    missing = [index for index in view.wanted if index not in view.workers and not _is_faulty(view, index)]
    at_once = _at_once(view, len(due_at) + len(missing))
    due = [index for index, at in due_at.items() if at <= view.now][:at_once]
    rolled, outdated = _outdated(view, [index for index in view.wanted if index not in failed])
    surplus = [pod for _, pod in sorted(view.surplus.items(), reverse=True) if not pod.is_going]
    deletes = [_delete(pod, "replicas was reduced") for pod in surplus]
    deletes += [_delete(view.workers[index], f"replaced: {failed[index].message}") for index in due]
    deletes += [_delete(view.workers[index], "its template has changed") for index in rolled]
    creates = [_create(view, index, 0) for index in missing[: at_once - len(due)]]
    creates += [_create(view, index, score(view.workers[index]) + 1) for index in due if not _is_faulty(view, index)]
    return Changes(
        deletes=tuple(deletes),
        creates=tuple(sorted(creates, key=lambda one: int(one.name.rpartition("-")[2]))),
        evicted=sum(view.workers[index].state.reason == "Evicted" for index in due),
        outdated=tuple(outdated),
        requeue_at=min((at for at in due_at.values() if at > view.now), default=None),
    )


def _failure(view: View, index: int) -> End | None:
    """Return how a worker failed, if it did and nothing is done about it yet."""
    pod = view.workers.get(index)
    if pod is None or pod.is_going:
        return None
    end = view.worker_end(pod)
    if end is None or not end.is_success:
        return end
    if not objects.is_sshd(view.job):
        return None
    return replace(end, is_success=False, message=f"{pod.name}: its sshd was ended")


def _is_permanent(view: View, pod: PodView, end: End) -> bool:
    if view.job.worker.restart_policy is not RestartPolicy.EXIT_CODE or pod.is_disrupted:
        return False
    return end.exit_code is not None and 0 < end.exit_code < 128


def score(pod: PodView) -> int:
    """Return how many have failed one after the other, before this pod."""
    text = pod.annotations.get(RESTARTS, "")
    is_number = isinstance(text, str) and text.isascii() and text.isdigit()
    return int(text) if is_number and pod.failed_at - pod.created_at < _LONG_LIFE_S else 0


def _replaced_at(pod: PodView, end: End) -> float:
    """Return when. A pod that is not over stays for a while when it is deleted, and its score goes with it."""
    before = score(pod)
    at = pod.failed_at + min(_FIRST_DELAY_S * 2.0 ** min(before - 1, 10), _LONGEST_DELAY_S) if before else 0.0
    return at if pod.is_over and end.exit_code != 0 else max(at, pod.failed_at + _END_S)


def _outdated(view: View, candidates: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the workers of an older template: those that are deleted now, and those that stay.

    What is not ready is of no use and goes at once, which also heals a template that never got ready. A ready one
    goes, from the highest index on, when all others are ready: one at a time.
    """
    current = objects.template_hash(view.job.worker)
    alive = {index: pod for index in candidates if (pod := view.workers.get(index)) and not pod.is_going}
    outdated = [index for index, pod in alive.items() if pod.annotations.get(names.TEMPLATE, current) != current]
    update = view.job.worker_update
    is_kept = update is WorkerUpdate.ON_DELETE or (update is WorkerUpdate.AUTO and launcher.is_running(view))
    if is_kept or not outdated:
        return [], outdated
    unready = [index for index in outdated if not view.is_ready(index)]
    if unready:
        return sorted(unready, reverse=True), []
    return ([max(outdated)] if view.ready == len(view.wanted) else []), []


def _delete(pod: PodView, reason: str) -> Delete:
    return Delete(POD, pod.name, pod.uid, reason)


def _at_once(view: View, many: int) -> int:
    """Return how many pods one plan makes: it holds them all, and the next one makes more."""
    if many <= _LEAST_AT_ONCE:
        return many
    parts = json.dumps(view.job.worker.template).count("{")  # each an object here, which takes 200 bytes
    return max(_LEAST_AT_ONCE, _PARTS_MAX // (parts + _OUR_PARTS))


def _is_faulty(view: View, index: int) -> bool:
    return view.is_invalid(POD, view.job.worker_name(index))


def _create(view: View, index: int, score: int) -> Create:
    body = objects.worker(view.job, index, view.settings)
    if score:
        annotations: Body = body["metadata"].setdefault("annotations", {})
        annotations[RESTARTS] = str(score)
    return Create(POD, body, "replaces a failed pod" if score else "missing")
