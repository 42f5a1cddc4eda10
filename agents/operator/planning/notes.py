"""Conditions that kubeflow doesn't have: why workers aren't ready, or old, and what an administrator must grant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.conditions import Stated as State
from agents.job.conditions import Type
from agents.job.model import Rbac, Transport
from agents.job.settings import annotation
from agents.job.status import Event, Urgency
from agents.operator import objects
from agents.operator.planning.launcher import TRIED, TRIED_AGAIN, Stage
from delivery.lack import Lack, Patience, lack_of
from delivery.sentence import sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.job.status import Draft
    from agents.operator.planning.launcher import Launcher
    from agents.operator.planning.pods import PodView
    from agents.operator.planning.view import View

_NAMES_MAX = 8
_NOT_SEEN = Lack("absent", "not created yet")


def tell(view: View, draft: Draft, launcher: Launcher, outdated: Sequence[int]) -> None:
    """State what holds now, and take back what does not hold any more."""
    _tell_workers(view, draft)
    _tell_launcher(view, draft, launcher)
    _tell_outdated(view, draft, outdated)


def _tell_workers(view: View, draft: Draft) -> None:
    total = len(view.wanted)
    lacking = [(f"worker-{index}", lack) for index in view.wanted if (lack := _lack(view, index)) is not None]
    words = sentence(view.ready, total, [(name, lack, 0.0) for name, lack in lacking])
    stuck = [pod for pod in view.workers.values() if _is_stuck(view, pod)]
    if stuck:
        reason, urgency = "WorkerStuck", Urgency.TROUBLE
        words = f"{words} · {_stuck_words(view, stuck)}"
    elif any(lack.patience is not Patience.ENDLESS for _, lack in lacking):
        reason, urgency = "WorkersInTrouble", Urgency.TROUBLE
    else:
        reason, urgency = "WaitingForWorkers", Urgency.LOW
    if not lacking and not stuck:
        draft.note(State(Type.WORKERS_READY, True, "WorkersReady", words), urgency=Urgency.LOW)
        return
    event = Event("Warning", reason, words) if urgency is Urgency.TROUBLE else None
    draft.note(State(Type.WORKERS_READY, False, reason, words), event, urgency)


def _tell_launcher(view: View, draft: Draft, launcher: Launcher) -> None:
    """Say why the launcher doesn't run; of one that does, only what may never heal, as a program that crashes."""
    pod = launcher.pod
    if pod is None and launcher.why:
        # At once: the pod, which alone tells why, may be gone before its Job says that it was the last try.
        draft.note(State(Type.LAUNCHER_WAITING, True, TRIED, f"{launcher.why}{TRIED_AGAIN}"))
        return
    lack = lack_of(pod.state) if pod is not None and not pod.is_over else None
    is_trouble = lack is not None and lack.patience is not Patience.ENDLESS
    if pod is None or lack is None or not (is_trouble or launcher.stage is Stage.STARTING):
        draft.forget([Type.LAUNCHER_WAITING])
        return
    words = f"{pod.name} {lack.words}: {lack.detail}" if lack.detail else f"{pod.name} {lack.words}"
    reason, urgency = "LauncherStarts", Urgency.LOW
    if _is_stuck(view, pod):
        reason, urgency, words = "LauncherStuck", Urgency.TROUBLE, _stuck_words(view, [pod])
    elif is_trouble and not pod.is_going:
        reason, urgency = "LauncherInTrouble", Urgency.TROUBLE
    event = Event("Warning", reason, words) if urgency is Urgency.TROUBLE else None
    draft.note(State(Type.LAUNCHER_WAITING, True, reason, words), event, urgency)


def tell_stuck(view: View, draft: Draft) -> None:
    """Of a job that is stopped, which has nothing to wait for but its pods' end: say which may never end."""
    for kind, status, reason, pods in (
        (Type.WORKERS_READY, False, "WorkerStuck", view.workers.values()),
        (Type.LAUNCHER_WAITING, True, "LauncherStuck", view.launchers),
    ):
        if stuck := [pod for pod in pods if _is_stuck(view, pod)]:
            words = _stuck_words(view, stuck)
            draft.note(State(kind, status, reason, words), Event("Warning", reason, words), Urgency.TROUBLE)
        else:
            draft.forget([kind])


def _lack(view: View, index: int) -> Lack | None:
    pod = view.workers.get(index)
    return _NOT_SEEN if pod is None else lack_of(pod.state)


def _is_stuck(view: View, pod: PodView) -> bool:
    return pod.stuck_at is not None and pod.stuck_at <= view.now


def _stuck_words(view: View, stuck: Sequence[PodView]) -> str:
    pod = stuck[0]
    more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
    return (
        f"{pod.name}{more} can't be replaced: it is being deleted, and its node {pod.state.node} does not say that it"
        f" has ended. If that node is down for good: kubectl delete node {pod.state.node}, or"
        f" kubectl -n {view.job.namespace} delete pod {pod.name} --force"
    )


def _tell_outdated(view: View, draft: Draft, outdated: Sequence[int]) -> None:
    told = []
    for key, value in view.kept.items():
        held = f"it keeps {value}" if value else "it goes on without"
        words = f"{annotation(key)} can't change while the job has pods: {held}. "
        told.append(f"{words}Set it back, or pause and resume the job for it to hold")
    if outdated:
        names = _names([view.job.worker_name(index) for index in outdated])
        words = f"{names}: made from a former template, and kept. "
        told.append(f"{words}A worker that is deleted comes back with the present one")
    if not told:
        draft.forget([Type.WORKERS_OUTDATED])
        return
    reason, kind = ("SettingsKept", "Warning") if view.kept else ("TemplateChanged", "Normal")
    words = "; ".join(told)
    draft.note(State(Type.WORKERS_OUTDATED, True, reason, words), Event(kind, "WorkersOutdated", words))


def tell_rbac(view: View, draft: Draft) -> None:
    """Print the rule that someone else must grant, where no Role is to be made."""
    if view.job.rbac is Rbac.MANAGED or view.job.transport is Transport.SSH:
        draft.forget([Type.RBAC_UNMANAGED])
        return
    words = objects.needed_rule(view.job, view.hosts)
    draft.note(State(Type.RBAC_UNMANAGED, True, "RbacUnmanaged", words), Event("Normal", "RbacUnmanaged", words))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMES_MAX else f"{', '.join(names[:2])} and {len(names) - 2} more"
