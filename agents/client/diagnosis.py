"""Why a job is where it is: what it waits for or what it died of, and what to do. Pure.

`diagnose` asks the rules in their order; the first that has an answer gives it. All work with what every operator
leaves: conditions, pods, events. The messages of our own operator's conditions are used where they know more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from agents.client import causes, ends, output, silence, starting
from agents.client.facts import End, Facts, Pending, PodFacts
from agents.client.model import Explanation, State
from agents.common import durations
from agents.common.not_ready import NotReady, Tolerance, summary
from agents.common.text import one_line, printable, sentence
from agents.job import conditions
from agents.job.conditions import Type
from agents.job.json_object import Object, part

_WHAT_MAX = 4096  # bytes
_NOTES = ("WorkersUnused", "SettingsIgnored")  # conditions of our operator that hold in any state
UNSEEN_S = 10.0  # how long an operator may take to write a job's first condition
_QUOTA = re.compile(r"exceeded quota: [^;]*")
_REFUSED = re.compile(r"(?:is forbidden|is invalid|denied the request|admission webhook).*")


def diagnose(facts: Facts) -> Explanation:
    """Return the state of a job, and why."""
    found = next(one for one in (rule(facts) for rule in _RULES) if one is not None)
    notes = [conditions.true_condition(facts.conditions, kind) for kind in _NOTES]
    what = " ".join([found.what, *(sentence(str(one.get("message") or "")) for one in notes if one is not None)])
    return replace(found, reason=printable(found.reason), what=printable(what, _WHAT_MAX))


def failed_container(facts: Facts) -> End | None:
    """Return the container whose last lines belong to the explanation: the caller sets them as `facts.output`."""
    wanted, first = diagnose(facts).output_of, ends.first_failure(facts)
    if first is not None and first.pod == wanted:
        return first
    return facts.by_name[wanted].ends[-1] if wanted in facts.by_name else None


def running_launcher(facts: Facts) -> PodFacts | None:
    """Return the launcher of a job that just runs: the caller sets the end of its output as `facts.output`."""
    found = diagnose(facts)
    return silence.running_launcher(facts) if found.state is State.RUNNING and not found.reason else None


def _deleting(facts: Facts) -> Explanation | None:
    if not facts.is_being_deleted:
        return None
    return Explanation(State.DELETING, "Deleted", f"{facts.name} is being deleted{_still(facts)}.")


def _succeeded(facts: Facts) -> Explanation | None:
    condition = facts.condition(Type.SUCCEEDED)
    if condition is None:
        return None
    doubt = str(condition.get("message") or "").partition("successfully completed.")[2].strip()
    what = f"{facts.name} succeeded{_took(facts)}." + (f" {doubt}" if doubt else "")
    return Explanation(State.SUCCEEDED, "", what)


def _failed(facts: Facts) -> Explanation | None:
    """A launcher that did not wait for its workers, as kubeflow's, fails without one that can't start: that is why."""
    found = _failure(facts)
    if found is None:
        return None
    crashes = {"crash"} if found.reason in output.UNREACHABLE else set()
    for name, why, _seconds in facts.waiting():
        pod = facts.by_name.get(name)
        if pod is not None and (starting.has_never_run(why) or why.kind in crashes):
            text = f"{found.what} {name} is not ready: {why}"
            return replace(found, reason=_reason(pod, why), what=sentence(text), remedy=starting.remedy(why, name))
    return found


def _failure(facts: Facts) -> Explanation | None:
    condition = facts.condition(Type.FAILED)
    if condition is None:
        return None
    reason = str(condition.get("reason") or "Failed").rstrip("/")  # mpi-operator adds that of the pod, or none
    message = one_line(str(condition.get("message") or reason))
    what = f"{facts.name} failed{_took(facts)}: "
    if reason == "DeadlineExceeded":
        remedy = "Raise runPolicy.activeDeadlineSeconds, or give it more workers."
        return Explanation(State.FAILED, reason, f"{what}{sentence(message)}", remedy)
    end = None if reason == "RanksLost" else ends.first_failure(facts)
    if end is None:
        return Explanation(State.FAILED, reason, f"{what}{sentence(message)}", _remedy_by(message, facts))
    return causes.died(facts, State.FAILED, end, what)


def _blocked(facts: Facts) -> Explanation | None:
    condition = facts.condition(Type.VALIDATION_ERROR, Type.RESOURCE_EXISTS, Type.OTHER_OPERATOR)
    if condition is None:
        return None
    kind, message = Type(str(condition.get("type"))), sentence(one_line(str(condition.get("message") or "")))
    if kind is Type.OTHER_OPERATOR:
        has_begun = bool(facts.launchers or facts.workers or facts.condition(Type.RUNNING))
        return None if has_begun else Explanation(State.PENDING, kind, f"{facts.name} has not started: {message}")
    remedy = {
        Type.VALIDATION_ERROR: "Correct the job and submit it again.",
        Type.RESOURCE_EXISTS: "Delete or rename that object, or submit the job under another name.",
    }[kind]
    return Explanation(State.BLOCKED, kind, f"{facts.name} can't start ({kind}): {message}", remedy)


def _suspended(facts: Facts) -> Explanation | None:
    if not facts.is_suspended:
        return None
    still = _still(facts)
    if facts.kueue_queue:
        pending = facts.pending or Pending()
        place = f", at position {pending.position}" if pending.position is not None else ""
        what = f"{facts.name} has waited in queue {facts.kueue_queue} to be admitted{_for(facts)}{place}{still}."
        if pending.reason:
            return Explanation(State.QUEUED, "NotAdmitted", f"{what} Kueue: {sentence(pending.reason)}")
        remedy = f"`kubectl -n {facts.namespace} get workloads` shows the queue's reason."
        return Explanation(State.QUEUED, "NotAdmitted", what, remedy)
    what = f"{facts.name} is suspended and has no pods{still}."
    return Explanation(
        State.SUSPENDED, "Suspended", what, "Set runPolicy.suspend (or the pause) to false to resume it."
    )


def _unseen(facts: Facts) -> Explanation | None:
    """Of a job without any condition."""
    if facts.conditions or facts.launchers or facts.workers:
        return None
    if facts.is_managed_elsewhere:
        manager = part(facts.resource, "spec", "runPolicy").get("managedBy")
        return Explanation(State.PENDING, "ManagedElsewhere", f"{facts.name} is left to {manager} (managedBy).")
    age_s = facts.now - (facts.created_at or facts.now)
    if facts.problems:
        faults = "; ".join(str(one) for one in facts.problems[:3])
        what = f"{facts.name} is not valid: {faults}."
        return Explanation(State.BLOCKED, "Invalid", what, "Correct it and submit it again.")
    if age_s < UNSEEN_S:
        return Explanation(State.PENDING, "", f"{facts.name} was just created.")
    what = f"No operator has taken up {facts.name} in {durations.words(age_s)}."
    remedy = f"Is an MPI operator installed and running, and does it watch namespace {facts.namespace}?"
    return Explanation(State.PENDING, "NoOperator", what, remedy)


def _refused(facts: Facts) -> Explanation | None:
    """The API server does not let the operator create pods: by our condition, or by what others leave as events."""
    condition = facts.condition(Type.CREATION_REFUSED)
    message = str(condition.get("message") or "") if condition is not None else ""
    lacks_pods = not facts.launchers or any(index not in facts.workers for index in range(facts.wanted))
    if not message and lacks_pods:
        message = next((text for text in map(_creation_failure, reversed(facts.events)) if text), "")
    if not message:
        return None
    if quota := _QUOTA.search(message):
        what = f"{facts.name} can't create its pods: {one_line(quota[0])}."
        return Explanation(
            State.BLOCKED, "QuotaExceeded", what, "Ask for less, wait until other pods end, or have the quota raised."
        )
    what = f"{facts.name} can't create its pods: {sentence(one_line(message))}"
    return Explanation(State.BLOCKED, "CreationRefused", what, "Correct the pod templates, or ask for the right.")


def _creation_failure(event: Object) -> str:
    """Return the message of an event that says why a pod was not created, "" of another one."""
    message = str(event.get("message") or "")
    is_about = event.get("reason") == "FailedCreate" or "created failed" in message or "exceeded quota" in message
    return message if is_about and (_QUOTA.search(message) or _REFUSED.search(message)) else ""


def _restarting(facts: Facts) -> Explanation | None:
    """The launcher failed, and is tried again: in place by the kubelet, or by a new pod."""
    launcher = facts.launcher
    condition = facts.condition(Type.LAUNCHER_WAITING, Type.RESTARTING)
    is_retried = facts.condition(Type.RESTARTING) is not None
    if launcher is None and is_retried and condition is not None:  # between two launchers, the first one gone
        message = one_line(str(condition.get("message") or ""))
        what = f"{facts.name}'s launcher is started again: {sentence(message)}"
        return Explanation(State.RESTARTING, str(condition.get("reason") or ""), what, _remedy_by(message, facts))
    if not any(one.ends for one in facts.launchers) or launcher is None or not (end := ends.first_failure(facts)):
        return None
    if launcher.main is not None and launcher.main.state == "running" and not is_retried:
        return None
    if launcher.state.phase == "Failed" and not is_retried:  # for a moment, or for ever if the operator is down
        return causes.died(
            facts, State.RUNNING, end, f"{facts.name}'s launcher has failed; its operator has not reacted yet: "
        )
    failures = sum(len(pod.ends) > 0 for pod in facts.launchers) + max(0, launcher.restarts - 1)
    times = f" (failed {failures} times)" if failures > 1 else ""
    found = causes.died(facts, State.RESTARTING, end, f"{facts.name}'s launcher is started again{times}: ")
    return replace(found, reason=launcher.reason if launcher.reason == "CrashLoopBackOff" else found.reason)


def _workers(facts: Facts) -> Explanation | None:
    waiting = facts.waiting()
    if not waiting:
        return None
    first = min(waiting, key=lambda one: one[1].tolerance is Tolerance.UNLIMITED and one[1].kind != "unschedulable")
    name, why, _seconds = first
    pod = facts.by_name.get(name)
    reason = "WorkersMissing" if pod is None else _reason(pod, why)
    running = facts.condition(Type.RUNNING) is not None
    text = summary(facts.ready, facts.wanted, waiting)
    what = f"{facts.name} {'runs, but not all its workers are ready' if running else 'waits for its workers'}"
    what, remedy = f"{what}: {sentence(text)}", starting.remedy(why, "" if pod is None else pod.name)
    if (failed := _restarting(facts)) is not None:  # kubeflow's launchers don't wait for workers, and fail without them
        return replace(failed, reason=reason, what=f"{what} Meanwhile {failed.what}", remedy=remedy)
    found = Explanation(State.RUNNING if running else State.STARTING, reason, what, remedy)
    if pod is None or why.kind != "crash" or not pod.ends:
        return found
    return replace(
        found, output_of=pod.name, lines=tuple(map(printable, output.last_lines(facts.output, causes.LINES)))
    )


def _launcher(facts: Facts) -> Explanation | None:
    """All workers are ready, and the launcher does not run yet."""
    launcher = facts.launcher
    if launcher is None:
        what = f"{facts.name} has its {facts.wanted} workers ready; its launcher is not created yet."
        return Explanation(State.STARTING, "LauncherMissing", what)
    main = launcher.main
    if launcher.why is None or (main is not None and main.state in {"running", "terminated"}):
        return None
    why = starting.held_back(launcher.why, launcher.uid, facts.events)
    what = f"{facts.name} waits for its launcher: {launcher.name} {sentence(str(why))}"
    return Explanation(State.STARTING, _reason(launcher, why), what, starting.remedy(why, launcher.name))


def _reason(pod: PodFacts, why: NotReady) -> str:
    return why.kind if starting.is_of_event(why) else pod.reason


def _running(facts: Facts) -> Explanation:
    since = facts.condition(Type.RUNNING)
    lasts = _for(facts)
    runs = f"has been running{lasts}" if lasts else "runs"
    what = f"{facts.name} {runs} on {facts.ready} of {facts.wanted} workers."
    if facts.condition(Type.DEBUGGING) is not None:
        what = f"{what} It is in debug mode: its launcher waits for you."
    launcher = facts.launcher
    if launcher is not None and launcher.main is not None and launcher.main.state == "terminated":
        what = f"{facts.name}'s launcher has ended with exit code {launcher.main.exit_code}; its end is being recorded."
    state = State.STARTING if since is None and launcher is None else State.RUNNING
    return silence.explained(facts, Explanation(state, "", what))


_RULES: tuple[Callable[[Facts], Explanation | None], ...] = (
    _deleting,
    _succeeded,
    _failed,
    _blocked,
    _suspended,
    _refused,
    _unseen,
    _workers,
    _restarting,
    _launcher,
    _running,
)


def _took(facts: Facts) -> str:
    started, ended = facts.time("startTime") or facts.created_at, facts.time("completionTime")
    return f" after {durations.words(ended - started)}" if started is not None and ended is not None else ""


def _for(facts: Facts) -> str:
    started = facts.time("startTime") or facts.created_at
    return "" if started is None else f" for {durations.words(facts.now - started)}"


def _remedy_by(message: str, facts: Facts) -> str:
    """What to do by a condition's message alone: our operator puts the launcher's last lines into it, parted by |."""
    known = output.mistake([message.replace(" | ", " ")])
    if known is not None:
        return known.remedy
    return "" if facts.launchers else f"The launcher's pod is gone: `kubectl mpi events {facts.name}` may show more."


def _still(facts: Facts) -> str:
    """Which pods are still there, as the end of a sentence."""
    names = [*facts.by_name]
    if not names:
        return ""
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more"]
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"; {listed} {'is' if len(names) == 1 else 'are'} still there"
