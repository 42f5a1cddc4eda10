"""When the hub ends with its pod."""

from __future__ import annotations

import json

import pytest
from clocks import Clock
from scripted_api import settle

from agents.common.loop import Loop
from rshagent.hub.ending import Deadline, grace_left, kill_after

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


@pytest.mark.parametrize(
    ("metadata", "left_s"),
    [
        ({"deletionTimestamp": "2023-11-14T22:13:50Z", "deletionGracePeriodSeconds": 30}, 30.0),
        ({"deletionTimestamp": "2023-11-14T22:13:40Z", "deletionGracePeriodSeconds": 30}, 20.0),
        ({"deletionTimestamp": "2023-11-14T22:23:20Z", "deletionGracePeriodSeconds": 30}, 30.0),  # its clock is ahead
        ({"deletionTimestamp": "2023-11-14T22:13:00Z", "deletionGracePeriodSeconds": 30}, 0.0),
        ({"deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 0}, 0.0),
        ({"deletionTimestamp": "soon", "deletionGracePeriodSeconds": 30}, None),
        ({"deletionTimestamp": "2023-11-14T22:13:50Z"}, None),
        ({"deletionTimestamp": 5, "deletionGracePeriodSeconds": 30}, None),
        ({}, None),
    ],
)
def test_what_a_pod_says_of_its_end(metadata: dict[str, object], left_s: float | None) -> None:
    assert grace_left(json.dumps({"metadata": metadata}).encode(), NOW) == left_s


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"metadata": 1}', b"[" * 100_000])
def test_what_is_no_pod_says_nothing(body: bytes) -> None:
    assert grace_left(body, NOW) is None


@pytest.mark.parametrize(
    ("left_s", "seconds"), [(None, 1.0), (2.0, 1.0), (4.0, 1.0), (6.0, 3.0), (8.0, 5.0), (30.0, 5.0)]
)
def test_kill_comes_earlier_when_time_is_short(left_s: float | None, seconds: float) -> None:
    assert kill_after(left_s) == seconds


class Ending:
    """A deadline on a clock that the test moves, and when it was near."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.began_at, self.near = self.clock.now, list[float]()
        self.loop = Loop(self.clock)
        self.deadline = Deadline(self.loop, lambda: self.near.append(self.clock.now - self.began_at))

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        settle(self.loop)


def test_the_job_is_ended_8_s_before_the_grace_period_is_over() -> None:
    ending = Ending()
    assert ending.deadline.left_s() is None
    ending.deadline.set(30)
    ending.wait(21)
    assert (ending.near, ending.deadline.left_s()) == ([], 9.0)
    ending.wait(1)
    assert ending.near == [22.0]
    ending.wait(20)
    assert (ending.near, ending.deadline.left_s()) == (
        [22.0],
        2.0,
    )  # the kubelet leaves so much to whom it tells at last


@pytest.mark.parametrize(("corrected_s", "near_s"), [(10, 2), (5, 0), (40, 32)])
def test_what_the_pod_says_counts_more(corrected_s: float, near_s: float) -> None:
    ending = Ending()
    ending.deadline.set(30)
    ending.deadline.set(corrected_s)
    for _ in range(50):
        ending.wait(1)
    assert ending.near == [max(near_s, 1)]  # the test's clock goes by seconds
