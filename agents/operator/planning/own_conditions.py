"""Conditions that kubeflow doesn't have: worker and launcher readiness, outdated workers, debug mode, rejected objects.

A rejected creation is reported until the object exists: neither a restarted operator nor a further try repeats it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence

from agents.common.not_ready import NotReady, Tolerance, not_ready, summary
from agents.job import conditions
from agents.job.conditions import NewCondition, Type
from agents.job.model import Rbac, Transport, annotation
from agents.job.status import FAILED, Event, StatusBuilder, Urgency
from agents.job.template import main_container
from agents.kube.kinds import BATCH_JOB, POD
from agents.operator import objects
from agents.operator.actions import Create
from agents.operator.planning import lost_workers
from agents.operator.planning.launcher import TRIED_AGAIN, Launcher, Stage
from agents.operator.planning.pods import PodView
from agents.operator.planning.view import View, is_invalid_message

_PROBLEM = Urgency.PROBLEM
_NAMES_MAX = 8


def set_readiness(view: View, builder: StatusBuilder, launcher: Launcher, outdated: Sequence[int]) -> None:
    """Set the conditions that hold, and remove the others."""
    _set_workers_ready(view, builder)
    _set_launcher_waiting(view, builder, launcher)
    _set_outdated(view, builder, outdated)


def _set_workers_ready(view: View, builder: StatusBuilder) -> None:
    node = view.job.dialect.worker_suffix
    unready = [(f"{node}-{index}", reason, 0.0) for index, reason in view.unready.items()]
    message = summary(view.ready, len(view.wanted), unready)
    if stuck := _stuck(view, view.workers.values()):
        builder.report(Type.WORKERS_READY, False, "WorkerStuck", f"{message} · {stuck}", _PROBLEM)
    elif any(reason.tolerance is not Tolerance.UNLIMITED for _, reason, _ in unready):
        builder.report(Type.WORKERS_READY, False, "WorkersInTrouble", message, _PROBLEM)
    else:
        reason = "WaitingForWorkers" if unready else "WorkersReady"
        condition = NewCondition(Type.WORKERS_READY, not unready, reason, message)
        builder.set_condition(condition, urgency=Urgency.LOW)


def _set_launcher_waiting(view: View, builder: StatusBuilder, launcher: Launcher) -> None:
    """Report why the launcher doesn't run, or a problem of a running one that may not heal, such as a crash loop."""
    pod, kind = launcher.pod, Type.LAUNCHER_WAITING
    if pod is None and launcher.why:
        # Immediately: the reason is only in the pod, which may be gone before its Job reports its last try.
        message = f"{launcher.why}{TRIED_AGAIN}"
        is_told = launcher.stage not in (Stage.RETRY, Stage.GOING)  # else Restarting says it
        event = Event("Warning", launcher.tried, message) if is_told else None
        builder.set_condition(NewCondition(kind, True, launcher.tried, message), event)
        return
    reason = launcher_not_ready(view, launcher)
    is_recoverable = reason is not None and reason.tolerance is not Tolerance.UNLIMITED
    # Of a login container that runs, a probe says when its users may come.
    is_reported = is_recoverable or launcher.stage is Stage.STARTING or view.job.dialect.never_ends
    if pod is None or reason is None or not is_reported:
        builder.remove_conditions([kind])
        return
    message = described(pod, reason)
    if stuck := _stuck(view, [pod]):
        builder.report(kind, True, "LauncherStuck", stuck, _PROBLEM)
    elif is_recoverable and not pod.is_going:
        urgency = Urgency.AT_ONCE if reason.kind == "crash" else _PROBLEM  # the attempt that failed is listed with it
        builder.report(kind, True, "LauncherInTrouble", message, urgency)
    else:
        builder.set_condition(NewCondition(kind, True, "LauncherStarts", message), urgency=Urgency.LOW)


def launcher_not_ready(view: View, launcher: Launcher) -> NotReady | None:
    """Return why the launcher's pod is not ready; None if it is, or has ended."""
    pod = launcher.pod
    if pod is None or pod.is_over:
        return None
    end = view.launcher_end(pod)
    is_ending = pod.has_ended and end is not None  # else the kubelet starts its containers again
    return None if is_ending and not view.job.dialect.never_ends else not_ready(pod.state)


def described(pod: PodView, reason: NotReady) -> str:
    """Return which pod is not ready, and why."""
    return f"{pod.name} {reason}"


def set_stuck(view: View, builder: StatusBuilder) -> None:
    """Report which pods of a suspended job may never end."""
    for kind, status, reason, pods in (
        (Type.WORKERS_READY, False, "WorkerStuck", view.workers.values()),
        (Type.LAUNCHER_WAITING, True, "LauncherStuck", view.launchers),
    ):
        builder.report(kind, status, reason, _stuck(view, pods), _PROBLEM)


def _stuck(view: View, pods: Iterable[PodView]) -> str:
    """Return which of these pods may never end, and what to do; "" for none."""
    stuck = [pod for pod in pods if pod.stuck_at is not None and pod.stuck_at <= view.now]
    if not stuck:
        return ""
    pod = stuck[0]
    more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
    return (
        f"{pod.name}{more} can't be replaced: it is being deleted, and its node {pod.state.node} does not confirm"
        f" its exit. If that node is permanently down: kubectl delete node {pod.state.node}, or"
        f" kubectl -n {view.job.namespace} delete pod {pod.name} --force"
    )


def _set_outdated(view: View, builder: StatusBuilder, outdated: Sequence[int]) -> None:
    messages = []
    for key, value in view.pinned.items():
        current = f"it keeps {value}" if value else "it stays unset"
        message = f"{annotation(key)} can't change while the job has pods: {current}. "
        messages.append(f"{message}Set it back, or pause and resume the job to apply it")
    if outdated:
        names = [view.job.worker_name(index) for index in outdated]
        if len(names) > _NAMES_MAX:
            names = [f"{names[0]}, {names[1]} and {len(names) - 2} more"]
        messages.append(f"{', '.join(names)}: created from an older template; delete the pod to update it")
    reason, kind = ("SettingsKept", "Warning") if view.pinned else ("TemplateChanged", "Normal")
    if message := "; ".join(messages):
        event = Event(kind, "WorkersOutdated", message)
        builder.set_condition(NewCondition(Type.WORKERS_OUTDATED, True, reason, message), event)
    else:
        builder.remove_conditions([Type.WORKERS_OUTDATED])


def set_rbac(view: View, builder: StatusBuilder) -> None:
    """Report the rule that an administrator must grant, if the operator creates no Role."""
    conflicts = {name for kind, name in view.observed.name_conflicts if kind == POD.name}
    message = ""
    if view.job.rbac is Rbac.NONE and view.job.transport is Transport.EXEC:
        hosts = [one for one in view.hosts if view.job.worker_name(one) not in conflicts]
        message = objects.needed_rule(view.job, hosts)
    builder.report(Type.RBAC_UNMANAGED, True, "RbacUnmanaged", message, event="Normal")


def set_unused(view: View, builder: StatusBuilder, launcher: PodView | None) -> None:
    """Report that the launcher succeeded without its workers. With SSH that may be known after the job's end."""
    unused = lost_workers.unused(view, launcher)
    if unused and conditions.find(builder.status["conditions"], Type.WORKERS_UNUSED) is None:
        builder.report(Type.WORKERS_UNUSED, True, "WorkersUnused", unused)


def set_ignored(view: View, builder: StatusBuilder) -> None:
    """Report names in the job that nothing reads: the job runs without what they may have meant."""
    ignored = view.job.ignored
    more = f" and {len(ignored) - _NAMES_MAX} more" if len(ignored) > _NAMES_MAX else ""
    message = f"{', '.join(map(str, ignored[:_NAMES_MAX]))}{more}"
    builder.report(Type.SETTINGS_IGNORED, True, "SettingsIgnored", message)


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
    builder.report(Type.DEBUGGING, is_debugged, reason, message, event="Normal")


def _how_to_enter(view: View) -> str:
    container = str(main_container(view.job.launcher.template, view.job.main_container).get("name", ""))
    line = f"; the job's command: {shlex.join(view.job.launch_command)}" if view.job.launch_command else ""
    return (
        "the launcher waits and does not start mpirun. To enter it: "
        f"kubectl -n {view.job.namespace} exec -it {_launcher_resource(view)} -c {container} -- sh{line}"
    )


def _how_to_go_on(view: View) -> str:
    return f"to recreate it, kubectl -n {view.job.namespace} delete {_launcher_resource(view, 'pod/')}"


def _launcher_resource(view: View, pod: str = "") -> str:
    return f"{pod if view.job.dialect.has_launcher_pod else 'job/'}{view.job.launcher_name}"


def set_rejections(view: View, builder: StatusBuilder, creates: Sequence[Create]) -> None:
    """Report what holds now. `creates`: what this plan creates, and so does not exist yet."""
    conflicts, rejected = sorted(view.observed.name_conflicts), view.observed.rejected
    invalid = sorted(key for key, message in rejected.items() if is_invalid_message(message))
    others = sorted(rejected.keys() - invalid)

    def conflict(kind: str, name: str) -> str:  # in kubeflow's words
        return f'Resource "{name}" of Kind "{kind}" already exists and is not managed by {view.job.dialect.kind}'

    if conflicts:
        message = "; ".join(conflict(*one) for one in conflicts[:_NAMES_MAX])
        builder.report(Type.RESOURCE_EXISTS, True, "ErrResourceExists", message)
    else:
        _remove_when_made(builder, Type.RESOURCE_EXISTS, creates, conflict)
    if invalid:  # only an edit of the job helps
        message = f"{_named(*invalid[0])}{rejected[invalid[0]]}"
        builder.report(Type.VALIDATION_ERROR, True, "ValidationError", message)
    else:
        _remove_when_made(builder, Type.VALIDATION_ERROR, creates, _named)
    if others:  # may heal by itself: a quota, a policy, a class that does not exist yet
        message = rejected[others[0]]
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        event = Event("Warning", FAILED, f"{_what(view, *others[0])} created failed: {message}")
        summary = f"{_named(*others[0])}{message}{more}"
        builder.set_condition(NewCondition(Type.CREATION_REFUSED, True, FAILED, summary), event)
    else:
        _remove_when_made(builder, Type.CREATION_REFUSED, creates, _named)


def _remove_when_made(
    builder: StatusBuilder, kind: Type, creates: Sequence[Create], describe: Callable[[str, str], str]
) -> None:
    """Remove a condition unless the object that it names is still to be created."""
    found = conditions.find(builder.status["conditions"], kind)
    message = "" if found is None else str(found.get("message"))
    if not any(describe(one.kind.name, one.name) in message for one in creates):
        builder.remove_conditions([kind])


def _named(kind: str, name: str) -> str:
    return f"{kind} {name}: "


def _what(view: View, kind: str, name: str) -> str:
    """Return kubeflow's message for pods, and the kind for anything else."""
    if name == view.job.launcher_name and kind in (POD.name, BATCH_JOB.name):
        return "launcher pod"
    return "worker pod" if kind == POD.name else kind
