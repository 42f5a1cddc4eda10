"""Conditions that kubeflow doesn't have: worker and launcher readiness, outdated workers, debug mode, rejected objects.

A rejected creation is reported until the object exists: neither a restarted operator nor a further try repeats it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from agents.common.not_ready import NotReady, Tolerance, not_ready, summary
from agents.job import conditions
from agents.job.conditions import NewCondition, Type
from agents.job.model import Rbac, Transport
from agents.job.settings import annotation
from agents.job.status import FAILED, Event, Urgency
from agents.job.template import main_container
from agents.operator import objects
from agents.operator.kube import BATCH_JOB, POD
from agents.operator.planning.launcher import TRIED_AGAIN, Stage
from agents.operator.planning.view import is_invalid_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agents.job.status import StatusBuilder
    from agents.operator.actions import Create, CreateKeys
    from agents.operator.planning.launcher import Launcher
    from agents.operator.planning.pods import PodView
    from agents.operator.planning.view import View

    Creation = Create | CreateKeys

_NAMES_MAX = 8
_NOT_SEEN = NotReady("absent", "not created yet")


def set_readiness(view: View, builder: StatusBuilder, launcher: Launcher, outdated: Sequence[int]) -> None:
    """Set the conditions that hold, and remove the others."""
    _set_workers_ready(view, builder)
    _set_launcher_waiting(view, builder, launcher)
    _set_outdated(view, builder, outdated)


def _set_workers_ready(view: View, builder: StatusBuilder) -> None:
    total = len(view.wanted)
    lacking = [(f"worker-{index}", lack) for index in view.wanted if (lack := _lack(view, index)) is not None]
    message = summary(view.ready, total, [(name, lack, 0.0) for name, lack in lacking])
    stuck = [pod for pod in view.workers.values() if _is_stuck(view, pod)]
    if stuck:
        reason, urgency = "WorkerStuck", Urgency.TROUBLE
        message = f"{message} · {_stuck_message(view, stuck)}"
    elif any(lack.tolerance is not Tolerance.UNLIMITED for _, lack in lacking):
        reason, urgency = "WorkersInTrouble", Urgency.TROUBLE
    else:
        reason, urgency = "WaitingForWorkers", Urgency.LOW
    if not lacking and not stuck:
        builder.set_condition(NewCondition(Type.WORKERS_READY, True, "WorkersReady", message), urgency=Urgency.LOW)
        return
    event = Event("Warning", reason, message) if urgency is Urgency.TROUBLE else None
    builder.set_condition(NewCondition(Type.WORKERS_READY, False, reason, message), event, urgency)


def _set_launcher_waiting(view: View, builder: StatusBuilder, launcher: Launcher) -> None:
    """Report why the launcher doesn't run, or a problem of a running one that may not heal, such as a crash loop."""
    pod = launcher.pod
    if pod is None and launcher.why:
        # Immediately: the reason is only in the pod, which may be gone before its Job reports its last try.
        builder.set_condition(NewCondition(Type.LAUNCHER_WAITING, True, launcher.tried, f"{launcher.why}{TRIED_AGAIN}"))
        return
    lack = not_ready(pod.state) if pod is not None and not pod.is_over and not pod.has_ended else None
    is_trouble = lack is not None and lack.tolerance is not Tolerance.UNLIMITED
    if pod is None or lack is None or not (is_trouble or launcher.stage is Stage.STARTING):
        builder.remove_conditions([Type.LAUNCHER_WAITING])
        return
    message = f"{pod.name} {lack.message}: {lack.detail}" if lack.detail else f"{pod.name} {lack.message}"
    reason, urgency = "LauncherStarts", Urgency.LOW
    if _is_stuck(view, pod):
        reason, urgency, message = "LauncherStuck", Urgency.TROUBLE, _stuck_message(view, [pod])
    elif is_trouble and not pod.is_going:
        reason, urgency = "LauncherInTrouble", Urgency.TROUBLE
    event = Event("Warning", reason, message) if urgency is Urgency.TROUBLE else None
    builder.set_condition(NewCondition(Type.LAUNCHER_WAITING, True, reason, message), event, urgency)


def set_stuck(view: View, builder: StatusBuilder) -> None:
    """Report which pods of a suspended job may never end."""
    for kind, status, reason, pods in (
        (Type.WORKERS_READY, False, "WorkerStuck", view.workers.values()),
        (Type.LAUNCHER_WAITING, True, "LauncherStuck", view.launchers),
    ):
        if stuck := [pod for pod in pods if _is_stuck(view, pod)]:
            message = _stuck_message(view, stuck)
            builder.set_condition(
                NewCondition(kind, status, reason, message), Event("Warning", reason, message), Urgency.TROUBLE
            )
        else:
            builder.remove_conditions([kind])


def _lack(view: View, index: int) -> NotReady | None:
    pod = view.workers.get(index)
    return _NOT_SEEN if pod is None else not_ready(pod.state)


def _is_stuck(view: View, pod: PodView) -> bool:
    return pod.stuck_at is not None and pod.stuck_at <= view.now


def _stuck_message(view: View, stuck: Sequence[PodView]) -> str:
    pod = stuck[0]
    more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
    return (
        f"{pod.name}{more} can't be replaced: it is being deleted, and its node {pod.state.node} does not confirm"
        f" that it has ended. If that node is down for good: kubectl delete node {pod.state.node}, or"
        f" kubectl -n {view.job.namespace} delete pod {pod.name} --force"
    )


def _set_outdated(view: View, builder: StatusBuilder, outdated: Sequence[int]) -> None:
    messages = []
    for key, value in view.pinned.items():
        current = f"it keeps {value}" if value else "it stays unset"
        message = f"{annotation(key)} can't change while the job has pods: {current}. "
        messages.append(f"{message}Set it back, or pause and resume the job to apply it")
    if outdated:
        names = _names([view.job.worker_name(index) for index in outdated])
        message = f"{names}: created from an older template; delete the pod to update it"
        messages.append(message)
    if not messages:
        builder.remove_conditions([Type.WORKERS_OUTDATED])
        return
    reason, kind = ("SettingsKept", "Warning") if view.pinned else ("TemplateChanged", "Normal")
    message = "; ".join(messages)
    builder.set_condition(
        NewCondition(Type.WORKERS_OUTDATED, True, reason, message), Event(kind, "WorkersOutdated", message)
    )


def set_rbac(view: View, builder: StatusBuilder) -> None:
    """Report the rule that an administrator must grant, if the operator creates no Role."""
    if view.job.rbac is Rbac.MANAGED or view.job.transport is Transport.SSH:
        builder.remove_conditions([Type.RBAC_UNMANAGED])
        return
    conflicts = {name for kind, name in view.observed.name_conflicts if kind == POD.name}
    message = objects.needed_rule(view.job, [one for one in view.hosts if view.job.worker_name(one) not in conflicts])
    builder.set_condition(
        NewCondition(Type.RBAC_UNMANAGED, True, "RbacUnmanaged", message), Event("Normal", "RbacUnmanaged", message)
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMES_MAX else f"{', '.join(names[:2])} and {len(names) - 2} more"


def set_debugging(view: View, builder: StatusBuilder, launcher: Launcher) -> None:
    """Report whether the launcher is, or will be, in debug mode."""
    is_wanted, current = view.job.debug is not None, conditions.find(builder.status["conditions"], Type.DEBUGGING)
    is_there = launcher.stage is not Stage.ABSENT
    is_debugged = is_wanted if not is_there else current is not None and current.get("status") == "True"
    if not (is_wanted or is_debugged):
        builder.remove_conditions([Type.DEBUGGING])
        return
    reason, message = "DebugMode", _how_to_enter(view)
    if is_debugged and not is_wanted:
        reason = "DebugModeEnds"
        message = f"debug mode is off, but this launcher was created in debug mode: {_how_to_go_on(view)}"
        message += ", or pause and resume the job"
    elif is_wanted and not is_debugged:
        reason = "DebugModeLater"
        message = f"debug mode is on, but this launcher was created without it: {_how_to_go_on(view)}"
    builder.set_condition(NewCondition(Type.DEBUGGING, is_debugged, reason, message), Event("Normal", reason, message))


def _how_to_enter(view: View) -> str:
    container = str(main_container(view.job.launcher.template, view.job.main_container).get("name", ""))
    line = f"; the job's command: {shlex.join(view.job.launch_command)}" if view.job.launch_command else ""
    return (
        "the launcher waits and starts nothing by itself. To enter it: "
        f"kubectl -n {view.job.namespace} exec -it {_launcher_resource(view)} -c {container} -- sh{line}"
    )


def _how_to_go_on(view: View) -> str:
    return f"to recreate it, kubectl -n {view.job.namespace} delete {_launcher_resource(view, 'pod/')}"


def _launcher_resource(view: View, pod: str = "") -> str:
    return f"{pod if view.job.dialect.has_launcher_pod else 'job/'}{view.job.launcher_name}"


def set_rejections(view: View, builder: StatusBuilder, creates: Sequence[Creation]) -> None:
    """State what holds now. `creates`: what is to be made, and so is not there."""
    _set_name_conflicts(view, builder, creates)
    faults = {key: summary for key, summary in view.observed.rejected.items() if is_invalid_message(summary)}
    _set_invalid(builder, faults, creates)
    _set_rejected(
        view, builder, {key: view.observed.rejected[key] for key in view.observed.rejected.keys() - faults}, creates
    )


def _set_name_conflicts(view: View, builder: StatusBuilder, creates: Sequence[Creation]) -> None:
    """Say it in kubeflow's message."""
    conflicts, reason = sorted(view.observed.name_conflicts), "ErrResourceExists"
    if not conflicts:
        _remove_when_made(builder, Type.RESOURCE_EXISTS, creates, _conflict)
        return
    summary = "; ".join(_conflict(kind, name) for kind, name in conflicts[:_NAMES_MAX])
    builder.set_condition(NewCondition(Type.RESOURCE_EXISTS, True, reason, summary), Event("Warning", reason, summary))


def _set_invalid(builder: StatusBuilder, faults: dict[tuple[str, str], str], creates: Sequence[Creation]) -> None:
    """Report an invalid template: only an edit of the job helps."""
    if not faults:
        _remove_when_made(builder, Type.VALIDATION_ERROR, creates, lambda kind, name: f"{kind} {name}: ")
        return
    (kind, name), message = min(faults.items())
    reason, summary = "ValidationError", f"{kind} {name}: {message}"
    builder.set_condition(NewCondition(Type.VALIDATION_ERROR, True, reason, summary), Event("Warning", reason, summary))


def _set_rejected(
    view: View, builder: StatusBuilder, rejected: dict[tuple[str, str], str], creates: Sequence[Creation]
) -> None:
    """Report what may heal by itself: a quota, a policy, a class that does not exist yet."""
    if not rejected:
        _remove_when_made(builder, Type.CREATION_REFUSED, creates, lambda kind, name: f"{kind} {name}: ")
        return
    (kind, name), message = min(rejected.items())
    more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
    event = Event("Warning", FAILED, f"{_what(view, kind, name)} created failed: {message}")
    builder.set_condition(NewCondition(Type.CREATION_REFUSED, True, FAILED, f"{kind} {name}: {message}{more}"), event)


def _remove_when_made(
    builder: StatusBuilder, kind: Type, creates: Sequence[Creation], describe: Callable[[str, str], str]
) -> None:
    """Remove a condition unless the object that it names is still to be created."""
    found = conditions.find(builder.status["conditions"], kind)
    message = "" if found is None else str(found.get("message"))
    if not any(describe(one.kind.name, one.body["metadata"]["name"]) in message for one in creates):
        builder.remove_conditions([kind])


def _conflict(kind: str, name: str) -> str:
    return f'Resource "{name}" of Kind "{kind}" already exists and is not managed by MPIJob'


def _what(view: View, kind: str, name: str) -> str:
    """Return kubeflow's message for pods, and the kind for anything else."""
    if name == view.job.launcher_name and kind in (POD.name, BATCH_JOB.name):
        return "launcher pod"
    return "worker pod" if kind == POD.name else kind
