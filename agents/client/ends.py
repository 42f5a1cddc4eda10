"""What a job died of: the container that failed first, what its exit code means, and what to do about it. Pure."""

from __future__ import annotations

import re
import signal

from agents.client.facts import End, Facts
from agents.common import pods
from agents.job.json_object import Object, mappings, part
from agents.job.status import seconds

_OOM = "OOMKilled"
EVICTED = "The program is not at fault: submit the job again, or ask for what the pod uses (requests = limits)."
_CLOCKS_S = 2.0  # by how much the clocks of two nodes may differ, and a second's rounding

_SIGNALS = {  # what people call them
    signal.SIGSEGV: "segmentation fault",
    signal.SIGABRT: "abort, as by a failed assertion",
    signal.SIGBUS: "bus error: a file or /dev/shm became too small",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction: was the program built for another CPU?",
    signal.SIGKILL: "killed from outside",
    signal.SIGTERM: "terminated from outside",
    signal.SIGINT: "interrupted",
}
# A failed attempt in our operator's words (agents.common.pods): the pod, its container, how it ended, its last lines.
_ENDED = re.compile(r"(\S+): (?:init )?container (\S+) exited with (\d{1,3})(?: \((\w+)\))?(?:: (.*))?")
_RECORDED_MAX = 4096
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


def first_failure(facts: Facts) -> End | None:
    """Return the end that the job's end, or its launcher's last one, came from; None if neither pods nor status tell.

    It is the launcher's own, unless a worker failed while that launcher ran: mpirun notices that and fails.
    """
    ends = [end for pod in facts.launchers for end in pod.ends]
    last = max(ends, key=lambda end: end.at or 0.0, default=None if facts.launchers else _recorded(facts))
    workers = [end for pod in facts.workers.values() for end in pod.ends if _counts(end, last)]
    first = min(workers, key=lambda end: end.at or 0.0, default=None)
    return first or last


def _recorded(facts: Facts) -> End | None:
    """Return the launcher's last end as our operator has written it, for when the pod is gone."""
    attempts = mappings(part(facts.resource, "status").get("failedAttempts"))
    found = _ENDED.fullmatch(str(attempts[-1].get("message") or "")[:_RECORDED_MAX]) if attempts else None
    if found is None:
        return None
    pod, container, code, reason, said = found.groups(default="")
    lines = said.replace(" | ", "\n")
    return End(pod, container, int(code), reason or "Error", lines, None, seconds(attempts[-1].get("endedAt")))


def _counts(end: End, launcher: End | None) -> bool:
    """Whether a worker exited while the launcher ran, so that it was not the clean-up afterwards."""
    if launcher is None or launcher.at is None or end.at is None:
        return launcher is None
    if end.reason == _OOM or end.exit_code is None:  # judge by the cause alone: clocks may differ
        return (launcher.started_at or 0.0) <= end.at <= launcher.at + _CLOCKS_S
    return (launcher.started_at or 0.0) <= end.at < launcher.at


def described(end: End, *, has_signal: bool = True) -> str:
    """Return how a container ended: `pi-launcher: container mpi exited with 139 (SIGSEGV: segmentation fault)`.

    Not `has_signal`: the exit code is another program's, and tells of no signal.
    """
    if end.exit_code is None:
        return f"{end.pod} failed ({end.reason})" + (f": {end.message}" if end.message else "")
    text = f"{end.pod}: {pods.exited(f'container {end.container}', end.exit_code, end.reason)}"
    number = signal_of(end)
    if number is None or end.reason == _OOM or not has_signal:
        return text
    meaning = _SIGNALS.get(number)
    return f"{text} ({number.name}{f': {meaning}' if meaning else ''})"


def signal_of(end: End) -> signal.Signals | None:
    """Return the signal that an exit code above 128 stands for."""
    if end.exit_code is None or end.exit_code <= 128:
        return None
    try:
        return signal.Signals(end.exit_code - 128)
    except ValueError:
        return None


def remedy(end: End, raw: Object | None) -> str:
    """Return what to do about a failed container; `raw` is its pod."""
    if end.exit_code is None:
        return EVICTED
    if end.reason == _OOM:
        named = [one for kind in ("containers", "initContainers") for one in mappings(part(raw, "spec").get(kind))]
        found = next((one for one in named if one.get("name") == end.container), {})
        limit = part(found, "resources", "limits").get("memory")
        return f"Raise its memory limit{f' (now {limit})' if limit else ''}, or start fewer ranks per worker."
    if end.exit_code in {126, 127, 128}:
        return "The image lacks this program, or it is not on PATH or not executable: check command and image."
    number = signal_of(end)
    if number in _CRASHES:
        return "The program crashed: run it with fewer ranks, or under a debugger, to find where."
    if number is signal.SIGKILL:
        return "Was its node short of memory, did a liveness probe fail, or was it deleted?"
    if number is signal.SIGTERM:
        return "Was its pod deleted or its node drained?"
    return "The program's own output says why."
