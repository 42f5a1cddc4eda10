"""T9k's face of a status: what it shows of kubeflow's conditions, and that they are read back from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpijobs import job, mpijob

from agents.job import conditions, t9k_status
from agents.job.conditions import NewCondition, Type
from agents.job.status import StatusBuilder, Urgency, conditions_of, is_finished
from agents.job.t9k_status import LISTED_MAX, Phase, Replica, Task

AT, LATER = 1_700_000_000, 1_700_000_060
AT_TEXT, LATER_TEXT = "2023-11-14T22:13:20Z", "2023-11-14T22:14:20Z"


def builder(status: Any = None, now: float = AT) -> StatusBuilder:
    return StatusBuilder(job("t9k"), mpijob("t9k", {} if status is None else {"status": status}), now)


def resource(found: StatusBuilder) -> dict[str, Any]:
    return mpijob("t9k", {"status": found.build()})


def types(found: StatusBuilder) -> dict[str, str]:
    return {one["type"]: one["status"] for one in found.build()["conditions"]}


def begun(now: float = AT) -> StatusBuilder:
    found = builder(now=now)
    found.created(starts=True)
    found.initialized()
    found.running()
    return found


@pytest.mark.parametrize(
    ("then", "shown", "phase"),
    [
        ((), {"Initialized": "True", "Running": "True", "ReplicaFailure": "False"}, "Running"),
        (
            ("succeeded",),
            {"Initialized": "True", "Running": "True", "ReplicaFailure": "False", "Completed": "True"},
            "Succeeded",
        ),
        (
            ("failed",),
            {
                "Initialized": "True",
                "Running": "True",
                "ReplicaFailure": "False",
                "Completed": "False",
                "Failed": "True",
            },
            "Failed",
        ),
        (
            ("suspended",),
            {"Initialized": "True", "Running": "False", "ReplicaFailure": "False", "Paused": "True"},
            "Paused",
        ),
        (
            ("suspended", "resumed"),
            {"Initialized": "True", "Running": "False", "ReplicaFailure": "False", "Paused": "False"},
            "Resuming",
        ),
        (
            ("suspended", "resumed", "running"),
            {"Initialized": "True", "Running": "True", "ReplicaFailure": "False", "Paused": "False"},
            "Running",
        ),
        (("restarting",), {"Initialized": "True", "ReplicaFailure": "True", "Restarting": "True"}, "Pending"),
    ],
)
def test_what_a_job_shows(then: tuple[str, ...], shown: dict[str, str], phase: str) -> None:
    found = begun()
    for step in then:
        found = StatusBuilder(job("t9k"), resource(found), LATER)  # each is written before the next one happens
        if step == "succeeded":
            found.succeeded(LATER)
        elif step == "failed":
            found.failed(LATER, "MPIJobFailed", "The job exited with an error code. x")
        elif step == "restarting":
            found.restarting("it was evicted (uid 1)")
        else:
            getattr(found, step)()
    assert types(found) == shown
    assert found.build()["phase"] == phase
    assert is_finished(resource(found)) is (phase in ("Succeeded", "Failed"))


def test_kubeflows_reasons_are_told_by_t9ks_words() -> None:
    for reason, shown in {
        "MPIJobFailed": "Failed",
        "MPIJobEvicted": "Evicted",
        "DeadlineExceeded": "DeadlineExceeded",
    }.items():
        found = begun()
        found.failed(LATER, reason, "x")
        assert {one["reason"] for one in found.build()["conditions"] if one["type"] in ("Failed", "Completed")} == {
            shown
        }
        assert found.events[-1].reason == shown


def test_a_transition_is_of_the_time_when_it_came() -> None:
    later = StatusBuilder(job("t9k"), resource(begun()), LATER)
    later.suspended()
    times = {one["type"]: one["lastTransitionTime"] for one in later.build()["conditions"]}
    assert times == {"Initialized": AT_TEXT, "Running": LATER_TEXT, "ReplicaFailure": AT_TEXT, "Paused": LATER_TEXT}


def test_t9ks_conditions_have_t9ks_fields_and_ours_have_kubeflows() -> None:
    found = begun()
    found.set_condition(NewCondition(Type.WORKERS_READY, True, "WorkersReady", "2/2 ready"))
    fields = {one["type"]: set(one) for one in found.build()["conditions"]}
    theirs = {"lastTransitionTime", "status", "message", "reason", "type"}
    assert fields["Running"] == fields["ReplicaFailure"] == theirs
    assert fields["WorkersReady"] == theirs | {"lastUpdateTime"}


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        (Type.WORKERS_READY, False, "WorkersInTrouble"),
        (Type.WORKERS_READY, False, "WorkerStuck"),
        (Type.LAUNCHER_WAITING, True, "LauncherInTrouble"),
        (Type.LAUNCHER_WAITING, True, "LauncherStuck"),
    ],
)
def test_trouble_is_a_replicas_failure_until_it_heals(kind: Type, status: bool, reason: str) -> None:
    found = begun()
    found.set_condition(NewCondition(kind, status, reason, "worker-1 can't get its image"))
    (failure,) = (one for one in found.build()["conditions"] if one["type"] == "ReplicaFailure")
    assert (failure["status"], failure["reason"], failure["message"]) == (
        "True",
        "Failed",
        "worker-1 can't get its image",
    )
    healed = StatusBuilder(job("t9k"), resource(found), LATER)
    healed.remove_conditions([kind])
    assert types(healed)["ReplicaFailure"] == "False"


def test_waiting_is_no_failure() -> None:
    found = begun()
    found.set_condition(NewCondition(Type.WORKERS_READY, False, "WaitingForWorkers", "1/2 ready"))
    assert types(found)["ReplicaFailure"] == "False"


def test_the_pods_are_worth_a_write_that_can_wait() -> None:
    made = (Task("launcher", 0, (Replica("pi-launcher", Phase.PENDING, "1"),)),)
    found = StatusBuilder(job("t9k"), resource(begun()), LATER)
    found.tasks(made)
    assert found.urgency is Urgency.LOW
    again = StatusBuilder(job("t9k"), resource(found), LATER)
    again.tasks(made)
    assert again.urgency is Urgency.NONE


def test_more_replicas_than_a_status_can_hold_are_counted_and_those_that_do_not_run_are_listed() -> None:
    running = [Replica(f"pi-worker-{index}", Phase.RUNNING, f"uid-{index}") for index in range(LISTED_MAX)]
    failed = Replica("pi-worker-9999", Phase.FAILED, "uid-9999", (("mpi-worker", 1),))
    found = t9k_status.tasks(mpijob("t9k"), [Task("worker", 0, (*running, failed))])
    assert [one["name"] for one in found["tasks"][0]["status"]] == ["pi-worker-9999"]
    assert (found["aggregate"]["running"], found["aggregate"]["failed"]) == (LISTED_MAX, 1)


def test_the_launchers_line_is_quoted_as_a_shell_wants_it() -> None:
    line = {"spec/worker/cmd": ["./walk", "two words"], "spec/mca": {"btl": "^openib"}}
    found = StatusBuilder(job("t9k", line), mpijob("t9k", line), AT)
    found.created(starts=True)
    shown = found.build()["launchCommand"]
    assert shown == "mpirun --hostfile /etc/mpi/hostfile --mca btl '^openib' ./walk 'two words'"


def test_a_line_that_is_too_long_for_a_status_is_cut() -> None:
    line = {"spec/worker/cmd": ["./walk", "x" * 800_000]}
    found = StatusBuilder(job("t9k", line), mpijob("t9k", line), AT)
    shown = found.build()["launchCommand"]
    assert shown.startswith("mpirun --hostfile /etc/mpi/hostfile ./walk xxx")
    assert shown.endswith("x…")
    assert len(shown) < 40_000


TOLD = st.lists(
    st.sampled_from(["created", "initialized", "running", "restarting", "suspended", "resumed", "succeeded", "failed"]),
    max_size=8,
)


@given(TOLD)
def test_what_is_written_is_read_back_as_kubeflows(told: list[str]) -> None:
    """As far as it decides anything: types and statuses of all that is True, and whether it was paused."""
    found = builder()
    for step in told:
        calls: dict[str, Any] = {
            "created": lambda: found.created(starts=True),
            "restarting": lambda: found.restarting("why (uid 1)"),
            "succeeded": lambda: found.succeeded(AT),
            "failed": lambda: found.failed(AT, "MPIJobFailed", "x"),
        }
        calls.get(step, getattr(found, step))()
    read = conditions_of(resource(found))
    before = found.status["conditions"]
    ended = any(conditions.is_true(before, kind) for kind in (Type.SUCCEEDED, Type.FAILED))
    for kind in conditions.KUBEFLOW:
        if not (ended and kind in (Type.RUNNING, Type.SUCCEEDED, Type.FAILED)):
            assert conditions.is_true(read, kind) is conditions.is_true(before, kind), kind
    assert (conditions.find(read, Type.SUSPENDED) is None) is (conditions.find(before, Type.SUSPENDED) is None)
    assert is_finished(resource(found)) is ended
    again = StatusBuilder(job("t9k"), resource(found), LATER)
    if "created" in told:
        again.created(starts=True)
        assert again.urgency is Urgency.NONE or "startTime" not in found.status


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "status", "conditions", "tasks", "phase", "name", "replicas"]), inner
        )
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_status_is_read_and_written_on(status: Any) -> None:
    """Other programs may have written it."""
    found = builder(status)
    found.created(starts=True)
    found.tasks([Task("worker", 0, (Replica("pi-worker-0", Phase.CREATING),))])
    found.running()
    assert types(found)["Running"] == "True"
    t9k_status.replicas_of(status if isinstance(status, dict) else {}, "worker")
