"""What many workers lack, in one line: `5/8 ready · worker-3 pulling image 41 s · worker-6 unschedulable: …`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delivery import durations
from delivery.lack import Patience

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delivery.lack import Lack

_NAMES_MAX = 3
_GROUPS_MAX = 5


def sentence(ready: int, total: int, lacking: Sequence[tuple[str, Lack, float]]) -> str:
    """Group `(worker, lack, seconds)` by what they lack; what may end the wait comes first, then the order given."""
    groups: dict[tuple[str, str], list[tuple[str, Lack, float]]] = {}
    for entry in lacking:
        groups.setdefault((entry[1].words, entry[1].detail), []).append(entry)
    ordered = sorted(groups.values(), key=lambda group: group[0][1].patience is Patience.ENDLESS)
    parts = [f"{ready}/{total} ready", *(_group(group) for group in ordered[:_GROUPS_MAX])]
    rest = sum(len(group) for group in ordered[_GROUPS_MAX:])
    if rest:
        parts.append(f"{rest} more for other reasons")
    return " · ".join(parts)


def _group(group: list[tuple[str, Lack, float]]) -> str:
    longest_s = max(seconds for _, _, seconds in group)
    lack = group[0][1]
    lasting = f" {durations.words(longest_s)}" if longest_s >= 1 else ""
    detail = f": {lack.detail}" if lack.detail else ""
    return f"{_names([name for name, _, _ in group])} {lack.words}{lasting}{detail}"


def _names(workers: Sequence[str]) -> str:
    """Return up to three names, or the first two and how many more."""
    if len(workers) <= _NAMES_MAX:
        return ", ".join(workers)
    return f"{workers[0]}, {workers[1]} and {len(workers) - 2} more"
