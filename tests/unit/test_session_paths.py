"""Whatever happens to a session, by its runner: one end, no retry of what runs, no success unheard, nothing left."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_exec import Bench, Exec, benches, pod

from rshagent.session import transitions
from rshagent.session.events import State
from rshagent.stream.status import Exited, Failure
from rshagent.stream.streams import STDERR

if TYPE_CHECKING:
    from rshagent.session.facts import Facts
    from rshagent.session.transitions import Step

OUTCOMES = [
    None,
    Exited(0),
    Exited(3),
    Exited(137),
    Failure("exec is refused", retryable=False),
    Failure("busy", retryable=True),
]
ANSWERS = ["alive", "gone", "exit 0", "exit 3", "exit 143", "left 0 0", "left 2 2", "nonsense"]
ACTIONS = ("open", "acknowledge", "write", "stall", "end", "confirm", "answer", "signal", "stop", "die", "pod", "wait")


class Story:
    """A session whose execs and worker do what is drawn."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.opened: set[Exec] = set()
        self.acknowledged: set[Exec] = set()
        self.ended: set[Exec] = set()
        self.may_succeed = False
        self.starts_at_acknowledgement: int | None = None
        self.is_client_dead = False

    @property
    def live(self) -> list[Exec]:
        return [one for one in self.bench.execs if not one.is_closed and one not in self.ended]

    def act(self, action: str, data: st.DataObject) -> None:
        bench, live = self.bench, self.live
        one = data.draw(st.sampled_from(live)) if live else None
        if action == "wait":
            bench.wait(data.draw(st.sampled_from([0.2, 1.2, 6.0, 61.0])))
        elif action == "signal":
            bench.session.signal(10)
        elif action in ("stop", "die"):
            bench.session.end(15 if action == "stop" else None)
            self.is_client_dead |= action == "die"
        elif action == "pod":
            bench.engine.pods = {"worker-0": pod(data.draw(st.sampled_from("12")))} if data.draw(st.booleans()) else {}
            bench.engine.pod_changed("worker-0")
        elif one is not None:
            self._stream(action, one, data)
        if bench.session.facts.acknowledged_at and self.starts_at_acknowledgement is None:
            self.starts_at_acknowledgement = bench.starts

    def _stream(self, action: str, one: Exec, data: st.DataObject) -> None:
        if one not in self.opened and action != "end":
            self.opened.add(one)
            one.open()
        elif action == "acknowledge" and one.is_start and one not in self.acknowledged:
            self.acknowledged.add(one)
            one.acknowledge()
        elif action == "write" and one.is_start:
            one.write(b"x" * data.draw(st.sampled_from([1, 300_000])), STDERR)
        elif action == "stall":
            one.stall()
        elif action == "confirm" and one.is_start:
            one.is_confirmed = True
        elif action == "answer" and not one.is_start and one.sent:
            answer = data.draw(st.sampled_from(ANSWERS))
            self.may_succeed |= answer == "exit 0"
            one.answer(answer)
        elif action == "end":
            outcome = data.draw(st.sampled_from(OUTCOMES))
            self.may_succeed |= isinstance(outcome, Exited) and outcome.code == 0 and one.is_confirmed
            self.ended.add(one)
            one.end(outcome)


def never(facts: Facts, event: object, _seen: object) -> Step:
    pytest.fail(f"{event} in {facts.state}")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), actions=st.lists(st.sampled_from(ACTIONS), max_size=30), is_watched=st.booleans())
def test_any_story_has_one_end(
    monkeypatch: pytest.MonkeyPatch, data: st.DataObject, actions: list[str], is_watched: bool
) -> None:
    monkeypatch.setattr(transitions, "never", never)
    with closing(benches(monkeypatch)) as made:
        bench = next(made)
        if is_watched:
            bench.engine.pods = {"worker-0": pod("1")}
        bench.start()
        story = Story(bench)
        for action in actions:
            story.act(action, data)
        if not bench.ends:
            bench.session.end(None)
            story.is_client_dead = True
            bench.wait(120.0)  # the reaper gives up before, the reader of a pipe never does
        assert len(bench.ends) == 1
        facts = bench.session.facts
        assert facts.state is State.ENDED
        assert facts.code != 0 or story.may_succeed
        if story.starts_at_acknowledgement is not None:
            assert bench.starts == story.starts_at_acknowledgement
        assert story.live == [], "no exec is left"
        assert bench.loop.pending == 0, "no timer is left"
        assert bench.engine.limiter.inside == set()
        assert not bench.engine.followers
        assert not bench.engine.living
