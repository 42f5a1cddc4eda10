"""Whatever `why` says is bounded and printable."""

from __future__ import annotations

from client_jobs import facts, job, pod
from why_cases import LAUNCHER, UP

from agents.client.diagnosis import diagnose


def test_last_lines_are_bounded_and_printable() -> None:
    lines = tuple(f"\x1b[31mline {number}\x07" for number in range(50))
    found = diagnose(facts(job("v1", "Failed"), pod(LAUNCHER, "failed"), output=lines))
    assert found.lines == tuple(f"?[31mline {number}?" for number in range(45, 50))
    assert found.output_of == LAUNCHER


def test_nothing_from_outside_can_forge_a_line_or_control_a_terminal() -> None:
    evil = "a\nb\x1b[2J"
    forged = pod("pi-worker-0", "evicted", message=evil)
    forged["status"]["reason"] = evil
    found = diagnose(facts(job("v1", "Running"), forged, UP[1], pod(LAUNCHER, "ready")))
    assert (found.reason, str(found).isprintable()) == ("a b?[2J", True)
    queued = {"spec/runPolicy/suspend": True, "metadata/annotations": {"kueue.x-k8s.io/queue-name": evil}}
    assert str(diagnose(facts(job("v1", "Suspended", changes=queued)))).isprintable()


def test_what_a_container_says_can_not_forge_a_line() -> None:
    found = diagnose(facts(job("v1", "Failed", reason="X", message="a\nb\x1b[2J"), *UP))
    assert "a b?[2J" in found.what
