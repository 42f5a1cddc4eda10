"""The hub's metrics, as Prometheus reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from scripted_exec import lone_engine, unheard_session

from rshagent.call.bootstrap import Mark
from rshagent.hub.metrics import Metrics, result_of
from rshagent.session.target import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rshagent.session.session import Session


class Ended:
    """Sessions as they are when they have ended."""

    def __init__(self) -> None:
        self._engine = lone_engine()
        self._made: list[Session] = []

    def __call__(
        self, *, code: int = 0, reason: str = "", signal: int | None = None, orphan: bool = False, start_s: float = 0.0
    ) -> Session:
        session = unheard_session(self._engine, Mark("launcher", "worker-0", "1-1", "aa"), None, Options())
        self._made.append(session)
        facts = session.facts
        facts.code, facts.reason, facts.signal, facts.is_client_dead = code, reason, signal, orphan
        facts.created_at = 100.0
        facts.acknowledged_at = 100.0 + start_s if start_s else 0.0
        return session

    def close(self) -> None:
        for session in self._made:
            session.stdio.close()


@pytest.fixture
def ended() -> Iterator[Ended]:
    ended = Ended()
    yield ended
    ended.close()


def samples(metrics: Metrics, active: int = 0) -> dict[str, float]:
    """Read the text format: every line is a comment or a sample, every family is typed, no sample comes twice."""
    found: dict[str, float] = {}
    typed: set[str] = set()
    text = metrics.text(active)
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
            continue
        if line.startswith("# HELP "):
            continue
        match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"\})? (\d+(?:\.\d+)?)', line)
        assert match, line
        assert match[1] in typed or re.sub("_(bucket|sum|count)$", "", match[1]) in typed, line
        name = match[1].removeprefix("mpi_agents_hub_") + (match[2] or "")
        assert name not in found, line
        found[name] = float(match[3])
    return found


def test_a_new_hub_has_all_its_metrics_at_zero() -> None:
    found = samples(Metrics())
    assert set(found.values()) == {0.0}
    assert {'sessions_total{result="ok"}', "sessions_active", "retries_total", "start_seconds_count"} <= found.keys()


def test_results(ended: Ended) -> None:
    cases = {
        "ok": ended(),
        "exit": ended(code=3),
        "failed": ended(code=255, reason="the pod is gone"),
        "signalled": ended(code=143, reason="ended by SIGTERM", signal=15),
        "client_died": ended(code=255, reason="the client has died", orphan=True),
    }
    metrics = Metrics()
    for result, session in cases.items():
        assert result_of(session) == result
        metrics.count(session)
    found = samples(metrics, active=9)
    assert {result: found[f'sessions_total{{result="{result}"}}'] for result in cases} == dict.fromkeys(cases, 1.0)
    assert found["sessions_active"] == 9


def test_bytes_and_retries_add_up(ended: Ended) -> None:
    metrics = Metrics()
    for sent, received, retries in ((1, 2, 3), (10, 20, 30)):
        session = ended()
        session.stdio.sent, session.stdio.received, session.facts.retries = sent, received, retries
        metrics.count(session)
    found = samples(metrics)
    assert found['bytes_total{direction="sent"}'] == 11
    assert found['bytes_total{direction="received"}'] == 22
    assert found["retries_total"] == 33


def test_starts_are_a_histogram_of_those_that_did_start(ended: Ended) -> None:
    metrics = Metrics()
    for start_s in (0.25, 0.25, 7.0, 100.0, 0.0):
        metrics.count(ended(start_s=start_s))
    found = samples(metrics)
    buckets = {name: value for name, value in found.items() if name.startswith("start_seconds_bucket")}
    assert list(buckets.values()) == sorted(buckets.values()), "they are cumulative"
    assert buckets['start_seconds_bucket{le="0.1"}'] == 0
    assert buckets['start_seconds_bucket{le="0.25"}'] == 2
    assert buckets['start_seconds_bucket{le="10"}'] == 3
    assert buckets['start_seconds_bucket{le="60"}'] == 3
    assert buckets['start_seconds_bucket{le="+Inf"}'] == found["start_seconds_count"] == 4
    assert found["start_seconds_sum"] == 107.5
