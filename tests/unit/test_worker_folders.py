"""When the worker agent looks at its mounted folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.loop import Loop
from agents.worker import mounted
from agents.worker.mounted import FolderWatch
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def looks(folder: Path, wanted: int) -> int:
    """Return how often there was a look, at most as often as wanted."""
    loop, count = Loop(), 0

    def changed() -> None:
        nonlocal count
        count += 1
        if count == wanted:
            loop.stop()

    watched = FolderWatch(loop, [str(folder)], changed, lambda line: None)
    loop.call_later(DEADLINE_S, loop.stop)
    loop.run()
    watched.close()
    return count


def test_what_no_event_has_told_is_seen_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted, "_ANYWAY_MS", 1)
    assert looks(tmp_path, 2) == 2
