"""Pausing, resuming and debugging a job by a patch: what the job is read as when it is applied, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest
from client_jobs import facts, job, workers
from mpijobs import read_job

from agents.client.errors import RefusedError
from agents.client.modes import debugged, paused

Object = dict[str, Any]
DIALECTS = ("v1", "v2beta1", "t9k", "t9k-3")


def patched(given: Object, patch: Object) -> Object:
    """RFC 7396, without nulls."""
    merged = {key: patched(given.get(key) or {}, one) if isinstance(one, dict) else one for key, one in patch.items()}
    return {**given, **merged}


ANNOTATED = {"metadata/annotations": {"mpi-agents/pause": "true"}}
RUN_MODE = {"spec/runMode": {"pause": {"enabled": True}}}


@pytest.mark.parametrize("version", DIALECTS)
@pytest.mark.parametrize("changes", [{}, ANNOTATED, RUN_MODE, ANNOTATED | RUN_MODE])
def test_a_job_is_paused_and_resumed(version: str, changes: Object) -> None:
    resource = job(version, changes=changes)
    after = patched(resource, paused(facts(resource), is_on=True))
    assert read_job(after).policy.is_suspended
    again = patched(after, paused(facts(after), is_on=False))
    assert not read_job(again).policy.is_suspended


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_kubeflows_operators_are_told_by_their_own_field(version: str) -> None:
    assert paused(facts(job(version)), is_on=True) == {"spec": {"runPolicy": {"suspend": True}}}


def test_a_queue_pauses_its_jobs_itself() -> None:
    queued = job("v1", changes={"metadata/labels": {"kueue.x-k8s.io/queue-name": "gpu"}})
    with pytest.raises(RefusedError, match="pi is in queue gpu, which suspends and resumes it by itself"):
        paused(facts(queued), is_on=True)


def test_a_gang_schedulers_queue_pauses_nothing() -> None:
    queued = job("v1", changes={"spec/runPolicy/schedulingPolicy": {"queue": "gang"}})
    assert paused(facts(queued), is_on=True) == {"spec": {"runPolicy": {"suspend": True}}}


@pytest.mark.parametrize("version", DIALECTS)
@pytest.mark.parametrize("changes", [{}, {"metadata/annotations": {"mpi-agents/debug": "false"}}])
def test_debug_mode_is_switched_on_and_off(version: str, changes: Object) -> None:
    resource = job(version, changes=changes)
    after = patched(resource, debugged(facts(resource), is_on=True))
    assert read_job(after).debug is not None
    assert read_job(patched(after, debugged(facts(after), is_on=False))).debug is None


def test_other_operators_have_no_debug_mode() -> None:
    theirs = facts(job("v1", "Running"), *workers("ready", "ready"))
    with pytest.raises(RefusedError, match="pi is run by another operator"):
        debugged(theirs, is_on=True)
