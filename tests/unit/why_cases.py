"""What cases of `why` are: what is known of a job, and what is said of it."""

from __future__ import annotations

from client_jobs import workers

from agents.client.diagnosis import diagnose
from agents.client.facts import Facts
from agents.client.model import State

Case = tuple[Facts, State, str, list[str]]  # facts, state, reason, parts of the paragraph

LAUNCHER = "pi-launcher"
V2_LAUNCHER = "pi-launcher-x7k2p"  # of a batch Job
UP = workers("ready", "ready")
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 41, in load',
    "    raise ValueError(shape)",
    "ValueError: bad shape",
)
OUTPUT = ("epoch 1", "epoch 2", "Traceback: out of luck")


def check(given: Facts, state: State, reason: str, parts: list[str]) -> None:
    found = diagnose(given)
    assert (found.state, found.reason) == (state, reason), found
    assert [part for part in parts if part not in str(found)] == [], str(found)
    assert "\n" not in str(found)
    assert ".." not in str(found)
    assert ": ." not in str(found)
