"""Screens that are drawn again: what is on the terminal then."""

from __future__ import annotations

import os
import re

import pytest

from agents.kubectl_mpi.live import Live

ROWS, COLUMNS = 6, 20


class Screen:
    """A terminal, as far as `Live` uses it."""

    def __init__(self) -> None:
        self.lines, self.row, self.column, self.scrolled, self.wraps = [""] * ROWS, 0, 0, 0, True
        self.empty_moments = 0  # how often nothing was to be seen after something was

    def write(self, text: str) -> None:
        for word in re.findall(r"\x1b\[\??\d*[a-zA-Z]|\n|[^\x1b\n]+", text):
            before = any(self.lines)
            self._word(word)
            self.empty_moments += before and not any(self.lines)

    def _word(self, word: str) -> None:
        if word == "\n":
            self.column = 0
            self.row += 1
            if self.row == ROWS:
                self.lines, self.row, self.scrolled = [*self.lines[1:], ""], ROWS - 1, self.scrolled + 1
        elif word == "\x1b[K":
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif word == "\x1b[J":
            self.lines[self.row :] = [self.lines[self.row][: self.column], *[""] * (ROWS - self.row - 1)]
        elif word in {"\x1b[?7l", "\x1b[?7h"}:
            self.wraps = word.endswith("h")
        elif up := re.fullmatch(r"\x1b\[(\d+)A", word):
            self.row -= int(up[1])
        else:
            assert not self.wraps
            self.lines[self.row] = (word + self.lines[self.row][len(word) :])[:COLUMNS]
            self.column = len(word)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    monkeypatch.setattr("sys.stdout.write", screen.write)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((COLUMNS, ROWS)))
    return screen


def test_lines_are_drawn_in_their_place(screen: Screen) -> None:
    screen.row, screen.lines[0] = 1, "$ kubectl mpi top pi"
    live = Live()
    for lines in (["one", "two is long"], ["1", "2", "x" * 30], ["last"]):
        live.draw(lines)
        assert screen.lines == ["$ kubectl mpi top pi", *[one[:COLUMNS] for one in lines], *[""] * (5 - len(lines))]
    assert (screen.scrolled, screen.empty_moments, screen.wraps) == (0, 0, True)


def test_more_lines_than_the_terminal_has_do_not_scroll_it_again(screen: Screen) -> None:
    live, lines = Live(), [f"line {number}" for number in range(9)]
    live.draw(lines)
    live.draw(lines)
    assert screen.lines == ["line 0", "line 1", "line 2", "line 3", "… 5 more lines", ""]
    assert screen.scrolled == 0
    live.draw(lines, is_last=True)
    assert screen.lines == [*lines[4:], ""]
