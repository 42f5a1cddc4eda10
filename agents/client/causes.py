"""Why the job failed: a failed container, with what its output, its limits and the events of workers say. Pure."""

from __future__ import annotations

import signal
from dataclasses import replace

from agents.client import ends, output
from agents.client.facts import End, Facts
from agents.client.model import Explanation, State
from agents.client.objects import event_time
from agents.common.text import one_line, printable, sentence
from agents.job.json_object import Object, mappings, part
from agents.job.model import LAUNCHER
from agents.job.status import seconds

LINES = 5  # of a failed container's output are shown
_KILLED = 128 + signal.SIGKILL  # what a shell makes of it
# Events of a worker's pod that took it away from its job, of the kubelet, scheduler and node controller.
_TAKEN = frozenset({"Evicted", "Preempted", "TaintManagerEviction", "NodeNotReady", "NodeShutdown"})


def died(facts: Facts, state: State, end: End, what: str) -> Explanation:
    """Return what a container's end means; `what` is said before it."""
    pod = facts.by_name.get(end.pod)  # None: a launcher that is gone
    lines = facts.output or end.message.splitlines()
    rank = output.failed_rank(lines)
    is_explained = end.reason == "OOMKilled" or (rank is not None and rank.signal not in {None, signal.SIGBUS})
    known = None if is_explained else output.mistake(lines)  # else a line of long ago would hide what the kernel says
    # An mpirun that says why ends with a rank's code, or with one of its own: no signal ended it.
    described = ends.described(end, has_signal=rank is None and known is None)
    parts = [sentence(f"{what}{LAUNCHER if pod is None else pod.role} {described}")]
    reason = end.reason if end.reason != "Error" else f"ExitCode{end.exit_code}"
    remedy = ends.remedy(end, None if pod is None else pod.raw)
    if rank is not None:
        parts.append(f"The first rank to fail: {rank}.")
        reason = f"Signal{rank.signal}" if rank.signal is not None and reason.startswith("ExitCode") else reason
    if known is not None:
        parts.append(f"{known.what[0].upper()}{known.what[1:]}.")
        reason, remedy = known.reason, known.remedy
    elif rank is None and (said := output.unnamed_failure(lines)):
        parts.append(f"Mpirun names no rank, it says only: {said}.")
        remedy = f"See what the ranks print: `kubectl mpi logs {facts.name}`."
    elif rank is not None and (rank.signal == signal.SIGKILL or rank.exit_code == _KILLED):
        remedy = _memory(facts)
    shown = output.last_lines(lines, LINES) if known is None else output.lines_from(lines, known.line, LINES)
    found = Explanation(state, reason, " ".join(parts), remedy, end.pod, tuple(map(printable, shown)))
    is_open = rank is None and (known is None or known.reason in output.UNREACHABLE)
    return _taken(facts, end, found) if is_open and (pod is None or pod.role == LAUNCHER) else found


def _memory(facts: Facts) -> str:
    """What to do about a rank that was killed: the kernel's usual reason is the container's memory limit."""
    role = part(facts.resource, "spec", "mpiReplicaSpecs", "Worker", "template", "spec")
    limits = [part(one, "resources", "limits").get("memory") for one in mappings(role.get("containers"))]
    now = next((f" (now {limit})" for limit in limits if limit), "")
    return f"The kernel kills a rank that exceeds its container's memory limit{now}: raise it, or start fewer ranks."


def _taken(facts: Facts, end: End, found: Explanation) -> Explanation:
    """What of a launcher's failure is known by an event of a worker that was taken away meanwhile."""
    event = next((one for one in reversed(facts.events) if _is_taken(facts, end, one)), None)
    if event is None:
        return found
    name, message = part(event, "involvedObject").get("name"), one_line(str(event.get("message") or ""))
    what = f"{found.what} {name} was taken away ({event.get('reason')}): {sentence(message)}"
    return replace(found, reason=str(event.get("reason")), what=what, remedy=ends.EVICTED)


def _is_taken(facts: Facts, end: End, event: Object) -> bool:
    about = part(event, "involvedObject")
    is_worker = about.get("name") in {facts.worker_name(index) for index in range(facts.wanted)}
    is_meanwhile = (seconds(event_time(event)) or 0.0) >= (end.started_at or 0.0)
    return event.get("reason") in _TAKEN and about.get("kind") == "Pod" and is_worker and is_meanwhile
