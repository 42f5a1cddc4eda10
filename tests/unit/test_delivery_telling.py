"""What is told, when, and where: progress, API trouble, the termination log."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from agents.common import termination
from delivery.exits import API_REFUSED, API_SETUP, DeliveryError
from delivery.pod_wait import ApiOutage
from delivery.wait_loop import Progress

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = ("one",), ("two",)


def test_plain_progress_is_one_line_a_change() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.show(ONE, "0/8 ready 1 s", 0.0)
    progress.show(ONE, "0/8 ready 6 s", 5.0)
    progress.show(TWO, "1/8 ready", 7.0)
    assert out.getvalue() == "0/8 ready 1 s\n1/8 ready\n"


def test_quick_changes_are_gathered_and_the_last_is_told() -> None:
    out = io.StringIO()
    progress = Progress(out)
    for step in range(10):
        key, now = (step,), step * 0.1
        progress.show(key, f"{step}/9 ready", now)
    assert out.getvalue() == "0/9 ready\n"
    due_s = progress.next_s((9,), 0.9)
    assert due_s == pytest.approx(0.1)
    progress.show((9,), "9/9 ready", 0.9 + due_s)
    assert out.getvalue() == "0/9 ready\n9/9 ready\n"


def test_stall_gives_a_sign_of_life_every_30_s() -> None:
    out = io.StringIO()
    progress = Progress(out)
    now = 0.0
    for _ in range(4):
        progress.show(ONE, f"waiting {now:.0f} s", now)
        now += progress.next_s(ONE, now)
    assert out.getvalue().split("\n")[:-1] == ["waiting 0 s", "waiting 30 s", "waiting 60 s", "waiting 90 s"]


def test_live_line_is_drawn_over_and_lines_that_stay_go_above_it() -> None:
    out = io.StringIO()
    progress = Progress(out, live=True)
    progress.show(ONE, "0/8 ready", 0.0)
    assert progress.next_s(ONE, 0.0) == 1.0
    progress.line("copied")
    progress.show(ONE, "x" * 500, 1.0)
    assert out.getvalue() == "0/8 ready" + "\r\x1b[K" + "copied\n" + "x" * 78 + "…"


def test_reader_that_has_gone_away_does_not_end_the_wait() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8", closefd=True, buffering=1) as broken:
        progress = Progress(broken)
        progress.line("nobody hears this")
        progress.show(ONE, "nor this", 0.0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)  # so that closing has somewhere to flush to


def test_trouble_is_told_once_and_then_now_and_again_and_so_is_its_end() -> None:
    trouble = ApiOutage()
    told = [trouble.failed("connection refused", 5.0, now) for now in range(0, 70, 5)]
    assert told[0] == "connection refused; trying again"
    assert [line for line in told[1:] if line] == [
        "connection refused, for 30 s now; trying again",
        "connection refused, for 1 min now; trying again",
    ]
    assert trouble.message(66) == " · no answer from the API server for 1 min 6 s"
    assert trouble.answered(70) == "the API server answers again (after 1 min 10 s)"
    assert trouble.answered(71) == ""
    assert trouble.message(71) == ""


def test_other_trouble_is_told_at_once() -> None:
    trouble = ApiOutage()
    trouble.failed("connection refused", 1.0, 0)
    assert (
        trouble.failed("the API server answered 503", 1.0, 1, status=503) == "the API server answered 503; trying again"
    )


def test_silence_after_a_try_means_that_it_works() -> None:
    trouble = ApiOutage()
    trouble.failed("connection lost", 0.1, 0)
    assert trouble.is_on(5)
    assert not trouble.is_on(13)
    assert trouble.failed("connection lost", 0.1, 500) == "connection lost; trying again"


@pytest.mark.parametrize(
    ("status", "is_final", "after_s", "code"),
    [(403, True, 5, API_REFUSED), (0, True, 5, API_SETUP), (401, False, 60, API_SETUP)],
    ids=["forbidden", "certificate not trusted", "token not accepted"],
)
def test_refusal_that_lasts_ends_the_wait(status: int, is_final: bool, after_s: int, code: int) -> None:
    trouble = ApiOutage()
    for now in range(after_s):
        trouble.failed("no", 1.0, now, status=status, is_final=is_final)
    with pytest.raises(DeliveryError, match=r"^no$") as error:
        trouble.failed("no", 1.0, after_s, status=status, is_final=is_final)
    assert error.value.exit_code == code


def test_refusal_that_passes_does_not() -> None:
    trouble = ApiOutage()
    trouble.failed("forbidden", 4.0, 0, status=403, is_final=True)
    trouble.answered(4)
    trouble.failed("forbidden", 4.0, 8, status=403, is_final=True)
    trouble.failed("connection refused", 4.0, 12)
    trouble.failed("forbidden", 4.0, 16, status=403, is_final=True)


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_what_may_pass_is_tried_without_end(status: int) -> None:
    trouble = ApiOutage()
    for now in range(0, 100_000, 5):
        trouble.failed("down", 5.0, now, status=status)


def test_last_words_go_to_an_existing_termination_log_only(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    environ = {"MPI_AGENT_TERMINATION_LOG": str(log)}
    termination.leave("pi-worker-0 failed", environ)
    assert not log.exists()
    log.write_text("older and longer than what comes now")
    termination.leave("pi-worker-0 failed", environ)
    assert log.read_text() == "pi-worker-0 failed"
    termination.leave("é" * 5000, environ)
    assert len(log.read_bytes()) <= 4096
    termination.leave("a folder is no log", {"MPI_AGENT_TERMINATION_LOG": str(tmp_path)})
