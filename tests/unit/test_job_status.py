"""The writer of statuses: kubeflow's conditions in their order and words, and how urgent a change is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpijobs import job, mpijob

from agents.job import conditions
from agents.job.conditions import Change, NewCondition, Type
from agents.job.status import (
    Counts,
    Event,
    StatusBuilder,
    Urgency,
    conditions_of,
    cut,
    format_time,
    is_finished,
    seconds,
)

AT, LATER = 1_700_000_000, 1_700_000_060
AT_TEXT, LATER_TEXT = "2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z"


def builder(version: str, status: dict[str, Any] | None = None, now: float = AT) -> StatusBuilder:
    return StatusBuilder(job(version), mpijob(version, {} if status is None else {"status": status}), now)


def types(found: StatusBuilder) -> list[tuple[str, str]]:
    return [(one["type"], one["status"]) for one in found.status["conditions"]]


def test_a_condition_keeps_its_transition_while_its_status_stays() -> None:
    first, change = conditions.set_condition([], NewCondition(Type.RUNNING, True, "A", "one"), AT_TEXT)
    assert change is Change.REASON
    second, change = conditions.set_condition(first, NewCondition(Type.RUNNING, True, "A", "one"), LATER_TEXT)
    assert (second, change) == (first, Change.NONE)
    third, change = conditions.set_condition(second, NewCondition(Type.RUNNING, True, "A", "two"), LATER_TEXT)
    assert change is Change.MESSAGE
    assert third == [
        {
            "type": "Running",
            "status": "True",
            "lastUpdateTime": LATER_TEXT,
            "lastTransitionTime": AT_TEXT,
            "reason": "A",
            "message": "two",
        }
    ]
    fourth, change = conditions.set_condition(third, NewCondition(Type.RUNNING, False, "A", "two"), LATER_TEXT)
    assert change is Change.REASON
    assert fourth[0]["lastTransitionTime"] == LATER_TEXT


def test_running_and_restarting_shut_each_other_out() -> None:
    found = builder("v1")
    found.created(starts=True)
    found.running()
    found.restarting("it broke")
    assert types(found) == [("Created", "True"), ("Restarting", "True")]
    found.running()
    assert types(found) == [("Created", "True"), ("Running", "True")]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_the_life_of_a_job(version: str) -> None:
    found = builder(version)
    found.created(starts=True)
    found.running()
    found.failed(LATER, "MPIJobFailed", "MPIJob default/pi has failed")
    assert types(found) == [("Created", "True"), ("Running", "False"), ("Failed", "True")]
    assert found.status["startTime"] == AT_TEXT
    assert found.status["completionTime"] == LATER_TEXT
    assert found.events == [
        Event("Normal", "MPIJobCreated", "MPIJob default/pi is created."),
        Event("Normal", "MPIJobRunning", "MPIJob default/pi is running"),
        Event("Warning", "MPIJobFailed", "MPIJob default/pi has failed"),
    ]
    assert is_finished({"status": found.build()})


def test_what_holds_up_a_job_is_shown_as_its_state_and_else_a_true_condition() -> None:
    found = builder("v1")
    found.created(starts=True)
    found.set_condition(NewCondition(Type.WORKERS_READY, False, "WaitingForWorkers", "0/2 ready"))
    assert types(found)[-1] == ("Created", "True")
    found.set_condition(NewCondition(Type.VALIDATION_ERROR, True, "ValidationError", "bad"))
    assert types(found)[-1] == ("ValidationError", "True")
    found.remove_conditions([Type.VALIDATION_ERROR])
    found.suspended()
    assert types(found)[-1] == ("Suspended", "True")
    found.resumed()
    assert types(found)[-1] == ("Created", "True")


@pytest.mark.parametrize("held_up_by", conditions.BLOCKING)
@pytest.mark.parametrize("end", [Type.SUCCEEDED, Type.FAILED])
def test_nothing_holds_up_a_job_that_has_ended(held_up_by: Type, end: Type) -> None:
    """A worker that could not come back, or an edit that was taken back: the state is how the job ended."""
    found = builder("v1")
    found.created(starts=True)
    found.set_condition(NewCondition(held_up_by, True, "Some", "why"))
    if end is Type.SUCCEEDED:
        found.succeeded(AT)
    else:
        found.failed(AT, "MPIJobFailed", "it broke")
    assert types(found) == [("Created", "True"), (end, "True")]


def test_a_suspended_job_has_no_start() -> None:
    found = builder("v2beta1", {"conditions": [], "startTime": AT_TEXT})
    found.created(starts=False)
    found.suspended()
    assert "startTime" not in found.status
    assert types(found) == [("Created", "True"), ("Running", "False"), ("Suspended", "True")]
    v1 = builder("v1")
    v1.created(starts=False)
    v1.suspended()
    assert types(v1) == [("Created", "True"), ("Suspended", "True")]  # training-operator: only of one that ran


def test_how_urgent_a_change_is() -> None:
    found = builder("v1", {"conditions": [], "replicaStatuses": {"Launcher": {}, "Worker": {}}})
    found.counts(Counts(), Counts(), "0/2")
    assert (
        int(found.urgency) == Urgency.NONE
    )  # readyWorkers alone is no reason: a CRD that drops it would be written for ever
    found.counts(Counts(active=1), Counts(), "0/2")
    assert int(found.urgency) == Urgency.LOW
    found.set_condition(NewCondition(Type.WORKERS_READY, False, "X", "…"), urgency=Urgency.PROBLEM)
    assert int(found.urgency) == Urgency.PROBLEM
    found.running()
    assert int(found.urgency) == Urgency.AT_ONCE


def test_a_note_is_told_once_while_only_its_words_change() -> None:
    found = builder("v1")
    event = Event("Warning", "X", "words")
    found.set_condition(NewCondition(Type.CREATION_REFUSED, True, "X", "one"), event)
    found.set_condition(NewCondition(Type.CREATION_REFUSED, True, "X", "two"), event)
    assert found.events == [event]
    assert conditions.find(found.status["conditions"], Type.CREATION_REFUSED) == {
        "type": "CreationRefused",
        "status": "True",
        "lastUpdateTime": AT_TEXT,
        "lastTransitionTime": AT_TEXT,
        "reason": "X",
        "message": "two",
    }


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (AT_TEXT, AT),
        ("2023-11-14T22:13:20.500000Z", AT + 0.5),
        ("2023-11-14T23:13:20+01:00", AT),
        ("", None),
        (None, None),
    ],
)
def test_times(text: object, at: float | None) -> None:
    assert seconds(text) == at


@given(st.integers(0, 4_000_000_000))
def test_a_time_that_is_written_is_read_again(at: int) -> None:
    assert seconds(format_time(at)) == at


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_a_message_fits_into_an_event(letter: str) -> None:
    """An Event takes 1,024 bytes."""
    whole = letter * (1024 // len(letter.encode()))
    assert cut(whole) == whole
    shown = cut(f"{whole}.")
    assert shown.endswith(f"{letter}...")
    assert 1024 - len(letter.encode()) < len(shown.encode()) <= 1024


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "status", "conditions"]), inner)
    ),
    max_leaves=8,
)


@given(json, st.lists(st.sampled_from([*Type]), max_size=6), st.booleans())
def test_any_status_is_written_on(status: Any, told: list[Type], is_v1: bool) -> None:
    """Other programs may have written it."""
    found = builder("v1" if is_v1 else "v2beta1", {"status": status} if not isinstance(status, dict) else status)
    before = len(conditions_of({"status": status if isinstance(status, dict) else {}}))
    found.created(starts=True)
    for one in told:
        found.set_condition(NewCondition(one, True, "X", "x"))
    names = [one.get("type") for one in found.status["conditions"]]
    ours = [name for name in names if name in [*Type]]
    assert set(told) - {Type.RUNNING, Type.RESTARTING} <= set(ours)
    assert len(names) <= before + len(set(told)) + 1


def test_a_condition_says_one_line_whatever_a_container_said() -> None:
    stated = conditions.NewCondition(conditions.Type.WORKERS_READY, False, "Waiting", "a\nb\r\x1b[2J\x85\u2028\u202e")
    found, change = conditions.set_condition([], stated, "2026-01-01T00:00:00Z")
    assert found[0]["message"] == "a b ?[2J  ?"
    assert change is conditions.Change.REASON
    assert conditions.set_condition(found, stated, "2026-01-01T00:00:01Z") == (found, conditions.Change.NONE)
