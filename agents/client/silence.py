"""What the end of a launcher's output says, if it has been silent for long: maybe that a rank has died. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.client import output
from agents.client.causes import LINES
from agents.client.facts import Facts, PodFacts
from agents.client.model import Explanation
from agents.client.ranks import why_unseen
from agents.common import durations
from agents.common.text import printable, sentence
from agents.job.conditions import Type
from agents.job.status import seconds

SILENT_S = 60.0
"""A running job without new output for this time counts as silent: most programs write more often."""
_BURST_S = 2.0  # a rank that dies writes its traceback, and what it has held back
_LINE_MAX = 200  # bytes of a line that is quoted


def running_launcher(facts: Facts) -> PodFacts | None:
    """Return the launcher whose output matters while the job runs: not one in debug mode, which only waits."""
    pod = facts.launcher
    is_running = pod is not None and pod.main is not None and pod.main.state == "running"
    return pod if is_running and facts.condition(Type.DEBUGGING) is None else None


def last_output(stamped: Sequence[str], launcher: PodFacts) -> tuple[tuple[str, ...], float | None]:
    """Return the lines that came with the last one, without timestamps, and its time: the launcher's start if none did.

    What was written behind an exception a while later shows that it was handled.
    """
    at, found = (None if launcher.main is None else seconds(launcher.main.started_at)), []
    for line in stamped:
        time, _, text = line.partition(" ")
        written = seconds(time)  # None: the rest of a line that was too long to be held
        at = at if written is None else written
        found.append((at or 0.0, line if written is None else text))
    return tuple(text for written, text in found if written >= (at or 0.0) - _BURST_S), at


def explained(facts: Facts, found: Explanation) -> Explanation:
    """Return what is `found` of a running job with what its output adds, if that was read."""
    if facts.silent_since is None or (launcher := running_launcher(facts)) is None:
        return found
    silent_s = facts.now - facts.silent_since
    if silent_s < SILENT_S:
        return found
    died = output.exception(facts.output, facts.implementation)
    if died is not None and output.failed_rank(facts.output) is None:  # else its launcher knows, and ends the job
        rank = f"Rank {died.rank}" if died.rank >= 0 else "A rank"
        text = f"{rank} probably died of a Python exception, and the other ranks wait for it: "
        return replace(
            found,
            reason="PythonException",
            what=f"{found.what} {text}{sentence(printable(died.text, _LINE_MAX))}",
            remedy="Run it with `python -m mpi4py PROGRAM`: an exception then ends the whole job.",
            output_of=launcher.name,
            lines=tuple(map(printable, died.lines[-LINES:])),
        )
    if last := output.last_lines(facts.output, 1):
        shown = last[0].rstrip("\r").rpartition("\r")[2]  # of a progress bar the visible part
        text = f"Its last output came {durations.words(silent_s)} ago: {printable(shown, _LINE_MAX)}"
        return replace(found, what=f"{found.what} {sentence(text)}", remedy=_remedy(facts))
    what = f"{found.what} Its launcher has written nothing for {durations.words(silent_s)}."
    held_back = "A Python program may hold its output back: run it with `python -u`."
    return replace(found, what=what, remedy=f"{_remedy(facts)} {held_back}".strip())


def _remedy(facts: Facts) -> str:
    """Where its ranks are seen; "" if all are in the launcher's pod, where they are not."""
    if not facts.wanted:
        return ""
    shows = f"`kubectl mpi stacks {facts.name}`"
    unseen = why_unseen(facts)
    return f"{shows} {f'could show where its ranks are, but {unseen}' if unseen else 'shows where its ranks are'}."
