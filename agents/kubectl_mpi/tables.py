"""Tables and screens as lines of text. Pure: whoever prints them says how wide and whether in colour."""

from __future__ import annotations

import itertools
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agents.client.doctor import Check, Level
from agents.client.edits import Edit
from agents.client.model import JobEvent, JobStatus, JobSummary, PodSummary, State

_LEVELS = {Level.FAIL: "red", Level.WARN: "yellow", Level.SKIP: "", Level.OK: "green"}
_ENDS = (".", "…", "?", "!")
_NARROWEST = 30  # characters: a table's last column that is narrower is not wrapped
_EMPTY = frozenset({"", "-"})

_TEXT_MAX = 100  # characters of why a pod is not ready; -o wide has all
_EDITS_MAX = 10  # fields that were edited
_MANY = 40  # workers: with more, those that are ready are only counted
_COLOURS = {
    State.RUNNING: "green",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.BLOCKED: "red",
    State.RESTARTING: "yellow",
    State.STARTING: "yellow",
    State.PENDING: "yellow",
}


class Terminal(NamedTuple):
    """What shows the lines, by default a pipe. `style` colours a text, `width` is in characters."""

    style: Callable[[str, str], str] = lambda text, _colour: text
    width: int | None = None

    def wrapped(self, text: str) -> list[str]:
        """Return a paragraph as lines: as wide as the terminal, or one line in a pipe."""
        if not self.width:
            return [text]
        return textwrap.wrap(text, self.width, break_on_hyphens=False, break_long_words=False)


_PIPE = Terminal()


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    colours: Sequence[str] = (),
    on: Terminal = _PIPE,
) -> list[str]:
    """Return lines with columns as wide as needed. `colours`: of each row's STATE, or of all of it.

    A table that is wider than a terminal is shown without its empty columns, its last one wrapped.
    """
    if on.width and rows and max(map(len, table(titles, rows))) > on.width:
        return table(*_fitted(titles, rows, colours, on.width), on._replace(width=None))
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    coloured = titles.index("STATE") if "STATE" in titles else 0
    lines = []
    for number, row in enumerate([titles, *rows]):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        if number and colours and colours[number - 1]:
            cells[coloured] = on.style(cells[coloured], colours[number - 1])
        lines.append("   ".join(cells).rstrip())
    return lines


def _fitted(
    titles: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str], width: int
) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """Return titles, rows and colours of a table that is too wide: with less columns, and more rows."""
    columns = zip(titles, zip(*rows, strict=True), strict=True)
    shown = [any(cell not in _EMPTY for cell in column) for _title, column in columns]
    titles, *rows = (list(itertools.compress(row, shown)) for row in (titles, *rows))
    before = [max(map(len, column)) for column in zip(titles, *rows, strict=True)][:-1]
    left = width - sum(before) - 3 * len(before)
    if left < _NARROWEST:  # the terminal's own wrapping takes fewer lines
        return titles, rows, colours
    wrapped, coloured = list[list[str]](), list[str]()
    for row, colour in zip(rows, colours or [""] * len(rows), strict=True):
        first, *more = textwrap.wrap(row[-1], left, break_on_hyphens=False) or [""]
        wrapped += [[*row[:-1], first], *([*([""] * len(before)), line] for line in more)]
        coloured += [colour, *([""] * len(more))]
    return titles, wrapped, coloured


def age(seconds: float) -> str:
    """Return an age as kubectl writes it: 41s, 3m20s, 5h, 3d."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60}s" if whole % 60 else f"{whole // 60}m"
    if whole < 3 * 3600:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86400}d"


def jobs(
    found: Sequence[JobSummary],
    now: float,
    *,
    has_namespace: bool,
    is_wide: bool = False,
    on: Terminal = _PIPE,
) -> list[str]:
    """Return the table of `list`."""
    titles = ["NAME", "STATE", "REASON", "READY", "AGE", "RANKS", "QUEUE", "POS"]
    titles = [
        *(["NAMESPACE"] if has_namespace else []),
        *titles,
        *(["SLOTS", "API", "TRANSPORT", "TIME"] if is_wide else []),
    ]
    rows = []
    for job in found:
        ended = age((job.ended or now) - job.created) if job.created is not None else "-"
        cells = [
            job.name,
            str(job.state),
            job.reason or "-",
            f"{job.ready}/{job.workers}" if not job.state.has_ended else "-",
            age(now - job.created) if job.created is not None else "-",
            str(job.ranks or (f"<={job.slots}" if job.slots else "-")),
            job.queue or "-",
            str(job.position or "-"),
        ]
        wide = [str(job.slots), job.dialect, job.transport or "-", ended] if is_wide else []
        rows.append([*([job.namespace] if has_namespace else []), *cells, *wide])
    return table(titles, rows, [_COLOURS.get(job.state, "") for job in found], on)


def screen(job: JobStatus, now: float, *, is_wide: bool = False, on: Terminal = _PIPE) -> list[str]:
    """Return the screen of `status`."""
    summary, why = job.summary, job.explanation
    head = f"{summary.namespace}/{summary.name}: {on.style(str(summary.state), _COLOURS.get(summary.state, ''))}"
    lines = [
        head + (f" ({summary.reason})" if summary.reason else ""),
        *on.wrapped(str(why)),
        *(f"  | {line}" for line in why.lines),
        "",
    ]
    lines += [
        f"{_workers(summary)}, {_ranks(summary)}, dialect {summary.dialect}"
        + (f", transport {summary.transport}" if summary.transport else "")
        + (f", queue {summary.queue}" if summary.queue else ""),
        "",
    ]
    lines += pods(job.launchers, job.workers, is_wide=is_wide, on=on)
    lines += [line for note in job.notes for line in ["", *on.wrapped(note)]]
    lines += ["", *_timeline(job, now, on)]
    return lines


def events(found: Sequence[JobEvent], now: float, on: Terminal = _PIPE) -> list[str]:
    """Return the table of `events`."""
    rows = [
        [
            age(now - one.at) if one.at is not None else "-",
            one.type,
            one.reason,
            one.object,
            one.message + (f" (x{one.count})" if one.count > 1 else ""),
        ]
        for one in found
    ]
    colours = ["yellow" if one.type == "Warning" else "" for one in found]
    return table(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], rows, colours, on)


def checks(found: Sequence[Check], on: Terminal = _PIPE) -> list[str]:
    """Return the table of `doctor`."""
    rows = []
    for one in found:
        text = f"{one.what}{'' if one.what.endswith(_ENDS) else '.'} {one.remedy}" if one.remedy else one.what
        rows.append([f"{one.group}: {one.name}", str(one.level), text])
    return table(["CHECK", "STATE", "RESULT"], rows, [_LEVELS[one.level] for one in found], on)


def edits(found: Sequence[Edit], now: float) -> list[str]:
    """Return a line for each field that was edited."""
    lines = []
    for one in found[:_EDITS_MAX]:
        value = f": {one.now}, was {one.was}" if one.was else ""
        by = f" (by {one.by}, {_clock(one.at, now)})" if one.at is not None else ""
        lines.append(f"{one.path}{value}{by}")
    more = [f"and {len(found) - _EDITS_MAX} more"] if len(found) > _EDITS_MAX else []
    return [*lines, *more] or ["fields unknown (edited by you, a queue or a pause)"]


def _workers(summary: JobSummary) -> str:
    ready = "" if summary.state.has_ended else f", {summary.ready} ready"
    return f"{summary.workers} worker{'' if summary.workers == 1 else 's'}{ready}"


def _ranks(summary: JobSummary) -> str:
    if summary.ranks is None:
        return f"up to {summary.slots} ranks"
    return f"{summary.ranks} rank{'' if summary.ranks == 1 else 's'} in {summary.slots} slots"


def pods(
    launchers: Sequence[PodSummary],
    workers: Sequence[PodSummary],
    *,
    is_wide: bool,
    on: Terminal = _PIPE,
) -> list[str]:
    """Return a table of pods: of many workers those that are not ready, unless `is_wide`."""
    shown = [one for one in workers if not one.ready] if len(workers) > _MANY and not is_wide else workers
    pods = [*launchers, *shown]
    if not pods and not workers:
        return ["no pods"]
    rows = [
        [
            one.name,
            "Ready" if one.ready else one.reason or one.phase,
            one.node or "-",
            str(one.restarts),
            one.ranks or (f"up to {one.slots}" if one.slots else "-"),
            one.message if is_wide else _cut(one.message),
        ]
        for one in pods
    ]
    colours = [_colour(one) for one in pods]
    lines = table(["POD", "STATE", "NODE", "RESTARTS", "RANKS", "WHY"], rows, colours, on)
    if hidden := len(workers) - len(shown):
        lines.append(f"and {hidden} workers that are ready (-o wide shows them)")
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _colour(pod: PodSummary) -> str:
    if pod.ready or pod.reason == "Completed":
        return "green"
    return "red" if pod.phase == "Failed" else "yellow"


def _timeline(job: JobStatus, now: float, on: Terminal) -> list[str]:
    if not job.timeline:
        return []
    first = job.timeline[0].at
    rows = [[_clock(step.at, now), f"+{age(step.at - first)}", step.what] for step in job.timeline]
    return table(["TIME", "AFTER", "WHAT"], rows, on=on)


def _clock(at: float, now: float) -> str:
    local = time.localtime(at)
    return time.strftime("%H:%M:%S" if now - at < 43_200 else "%Y-%m-%d %H:%M:%S", local)
