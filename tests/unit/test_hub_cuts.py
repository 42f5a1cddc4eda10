"""What a hub says of lost daemons at its end: those of the launcher that ran last, and of those beside it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rshagent.hub import cuts
from rshagent.hub.cuts import Cuts
from rshagent.session.events import State
from rshagent.session.facts import Facts
from rshagent.session.target import Options

if TYPE_CHECKING:
    from rshagent.session import session

KUBELET_READS = 4096


class Session:
    """What is asked of a session: it has begun, and runs."""

    def __init__(self, caller: str, worker: str, instance: str = "1-2") -> None:
        self.options, self.facts = Options(caller=caller), Facts(0.0, {})
        self.facts.state = State.RUNNING
        self.mark, self.target = SimpleNamespace(instance=instance), SimpleNamespace(pod=worker)

    def begin(self, known: Cuts) -> Session:
        known.begin(cast("session.Session", self))
        return self

    def end(self, known: Cuts, cut: str = "") -> None:
        self.facts.state, self.facts.cut = State.ENDED, cut
        known.end(cast("session.Session", self))


def told(known: Cuts) -> dict[str, Any]:
    message = known.message()
    if not message:
        return {}
    assert len(message.encode()) <= KUBELET_READS
    assert "\n" not in message
    found: dict[str, Any] = json.loads(message)
    assert found["version"] == 1
    return dict(found["ranksLost"])


@pytest.mark.parametrize(
    ("story", "lost"),
    [
        ("A+1 A+2 A-1 A-2", ""),
        ("A+1 A+2 A!1 A-2", "1"),
        ("A+1 A+2 A!1 A~2 B+3 B-3", ""),  # a script tried again
        ("A+1 A!1 B+2 B!2", "2"),
        ("A+1 A!1 B+2 B-2 C+3 C!3", "3"),
        ("A+1 A~1 B+2 A!1 B-2", ""),  # what became of A is heard of late
        ("A+1 B+2 A!1 B-2", "1"),  # A and B ran at the same time
        ("A+1 B+2 A!1 B!2", "12"),
        ("A+1 A+2 A!1 B+3 A-2 B-3", "1"),
        ("A+1 B+2 A!1 C+3 B-2 C-3", ""),  # C came when A was over
        ("_+1 _!1", ""),  # called by a script, which sees the agent's exit code
        ("A+1 A!1 _+2 _-2", "1"),
        ("_+1 A+2 A-2 _!1", ""),
    ],
)
def test_whose_sessions_count(story: str, lost: str) -> None:
    known = Cuts()
    sessions: dict[str, Session] = {}
    for caller, what, worker in map(tuple, story.split()):
        if what == "+":
            name = "" if caller == "_" else f"{ord(caller)}-1"
            sessions[worker] = Session(name, f"worker-{worker}").begin(known)
        elif what == "~":
            sessions[worker].facts.state = State.GRACE
        else:
            sessions[worker].end(known, "the pod is gone" if what == "!" else "")
    found = told(known)
    assert found.get("count", 0) == len(lost)
    assert [one["worker"] for one in found.get("lost", [])] == [f"worker-{one}" for one in lost]


def test_the_same_process_id_in_another_container_is_another_launcher() -> None:
    known = Cuts()
    Session("7-7", "worker-0").begin(known).end(known, "killed")
    assert told(known)["count"] == 1
    Session("7-7", "worker-0", instance="1-3").begin(known)
    assert told(known) == {}


def test_what_is_told_is_bounded() -> None:
    known = Cuts()
    sessions = [Session(f"{number % 20 + 1}-1", "w" * 250).begin(known) for number in range(2000)]
    for one in sessions:
        one.end(known, "\x1b[2J\n" + "\U0001f600" * 5000)
    found = told(known)
    assert found["count"] == 2000  # however many launchers run at the same time
    assert 1 <= len(found["lost"]) <= 4
    assert all(one["cause"].isprintable() for one in found["lost"])
    Session("99-1", "worker-0").begin(known)
    assert told(known) == {}


@pytest.mark.parametrize("text", ["7-7", "1-0", "4194304-18446744073709551615"])
def test_a_caller(text: str) -> None:
    assert cuts.valid_caller(text) == text


@pytest.mark.parametrize(
    "text", ["", "-", "7", "7-", "-7", "a-7", "7-7-7", "7 -7", "\u0667-7", "7-" + "7" * 50, "7-7\n"]
)
def test_no_caller(text: str) -> None:
    assert cuts.valid_caller(text) == ""
