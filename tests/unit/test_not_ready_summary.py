"""The reasons of many workers that are not ready, in one line."""

from __future__ import annotations

import pytest

from agents.common import durations
from agents.common.not_ready import NotReady, Tolerance, summary

PULL, ABSENT = NotReady("pull", "pulling image"), NotReady("absent", "not created yet")
IMAGE = NotReady("image", "container mpi can't get its image (ErrImagePull)", "denied", Tolerance.GRACE)


def test_workers_with_the_same_lack_are_named_together_with_the_longest_time() -> None:
    assert summary(0, 2, [("a", PULL, 3.0), ("b", PULL, 70.0)]) == "0/2 ready · a, b pulling image 1 min 10 s"


def test_many_are_counted() -> None:
    lacking = [(f"worker-{number}", PULL, 0.0) for number in range(998)]
    assert summary(2, 1000, lacking) == "2/1000 ready · worker-0, worker-1 and 996 more pulling image"


def test_trouble_is_told_first() -> None:
    text = summary(0, 2, [("a", PULL, 5.0), ("b", IMAGE, 5.0)])
    assert text == "0/2 ready · b container mpi can't get its image (ErrImagePull) 5 s: denied · a pulling image 5 s"


def test_many_different_lacks_do_not_make_an_endless_line() -> None:
    lacking = [(f"w{number}", NotReady("unschedulable", "unschedulable", str(number)), 0.0) for number in range(50)]
    assert summary(0, 50, lacking).endswith(" · 45 more for other reasons")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min"), (-1, "0 s")],
)
def test_durations_are_told_in_words(seconds: float, words: str) -> None:
    assert durations.words(seconds) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5 h", 5400),
        ("250ms", 0.25),
        ("0", 0),
        ("2 min", 120),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10x", "-5", "5m and", "1h-5m", "٣s", "m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        durations.parse(text)
