"""Pod states over time: when the wait ends, how, and what it says meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delivery_pods import failed, pod, ready, waiting
from hypothesis import given
from hypothesis import strategies as st

from delivery import exits
from delivery.wait import Limits, Verdict, Wait

if TYPE_CHECKING:
    from agents.common.pods import Pod

W0, W1 = "pi-worker-0", "pi-worker-1"
LIMITS = Limits(grace_s=600, replacement_s=60)


def wait_for(*names: str, limits: Limits = LIMITS) -> Wait:
    return Wait(names, limits, 0.0)


def after(steps: list[tuple[float, Pod | None]], at: float, limits: Limits = LIMITS) -> Verdict:
    """Return the verdict at a time on one worker that went through `steps`."""
    wait = wait_for(W0, limits=limits)
    for when, state in steps:
        wait.update(W0, state, when)
    return wait.evaluate(at)


def test_pod_that_is_running_and_ready_ends_the_wait() -> None:
    """kubectl-delivery's TestWaitingPodRunning."""
    verdict = after([(1, ready())], 1)
    assert verdict.exit_code == exits.READY
    assert verdict.text == "1/1 ready after 1 s"


def test_all_must_be_ready_at_one_moment() -> None:
    wait = wait_for(W0, W1)
    wait.update(W0, ready(W0), 1)
    wait.update(W0, waiting("CrashLoopBackOff", name=W0), 2)
    wait.update(W1, ready(W1), 3)
    assert not wait.ready
    assert wait.evaluate(3).exit_code is None
    wait.update(W0, ready(W0), 4)
    assert wait.ready
    assert wait.evaluate(4).exit_code == exits.READY


def test_worker_that_vanishes_after_it_was_ready_is_missed() -> None:
    wait = wait_for(W0, W1)
    for name in (W0, W1):
        wait.update(name, ready(name), 1)
    wait.update(W0, None, 2)
    assert not wait.ready
    assert wait.evaluate(2).text == "1/2 ready · pi-worker-0 gone"


def test_example_of_the_issue() -> None:
    wait = wait_for(*(f"worker-{number}" for number in range(8)))
    for number in (0, 1, 2, 4, 5):
        wait.update(f"worker-{number}", ready(f"worker-{number}"), 9)
    wait.update("worker-7", waiting("ContainerCreating", ips=("10.0.0.9",)), 10)
    wait.update("worker-3", waiting("ContainerCreating", ips=("10.0.0.8",)), 10)
    unschedulable = pod(unscheduled="0/12 nodes are available", unscheduled_reason="Unschedulable")
    wait.update("worker-6", unschedulable, 48.5)
    assert wait.evaluate(51.4).text == (
        "5/8 ready · worker-3, worker-7 pulling image 41 s · worker-6 unschedulable 2 s: 0/12 nodes are available"
    )


LASTING: dict[str, tuple[Pod | None, float | None, int]] = {
    "image name is wrong": (waiting("InvalidImageName"), 0, exits.CANNOT_START),
    "failed": (failed(), 60, exits.ENDED),
    "gone": (None, 60, exits.GONE),
    "image can't be had": (waiting("ImagePullBackOff"), 600, exits.GRACE_OVER),
    "pulls": (waiting("ContainerCreating"), None, 0),
}


@pytest.mark.parametrize(("state", "lasts_s", "code"), LASTING.values(), ids=LASTING)
def test_a_reason_ends_the_wait_when_its_tolerance_is_over(state: Pod | None, lasts_s: float | None, code: int) -> None:
    steps: list[tuple[float, Pod | None]] = [(0, pod()), (10, state)]
    if lasts_s is None:
        verdict = after(steps, 1e6)
        assert (verdict.exit_code, verdict.check_in_s) == (None, None)
        return
    if lasts_s:
        before = after(steps, 10 + lasts_s - 1)
        assert (before.exit_code, before.check_in_s) == (None, 1)
    verdict = after(steps, 10 + lasts_s)
    assert verdict.exit_code == code
    assert verdict.text.startswith("pi-worker-0 ")


def test_reason_of_an_end_is_one_sentence_with_what_to_do() -> None:
    message = 'Back-off pulling image "x"'
    assert after([(0, waiting("ImagePullBackOff", message))], 600).text == (
        "pi-worker-0 container mpi can't get its image (ImagePullBackOff) for 10 min, longer than the grace: "
        'Back-off pulling image "x"; check the image\'s name, the registry and the pull secret'
    )
    assert after([(0, failed()), (5, None)], 60).text == (
        "pi-worker-0 gone and not replaced within 1 min; is the job being deleted, or its operator down?"
    )


def test_other_workers_are_wanted_from_now_on_and_the_others_keep_their_clocks() -> None:
    wait = wait_for("worker-0", "worker-1")
    wait.update("worker-0", ready("worker-0"), 1.0)
    wait.update("worker-1", failed("worker-1"), 1.0)
    wait.follow(["worker-0"], 2.0)
    assert wait.evaluate(2.0).exit_code == exits.READY
    wait = wait_for("worker-0", "worker-1")
    wait.update("worker-0", failed("worker-0"), 1.0)
    wait.update("worker-1", ready("worker-1"), 1.0)
    wait.follow(["worker-0", "worker-2"], 50.0)
    assert not wait.ready
    assert wait.evaluate(60.0).text.startswith("0/2 ready")
    assert wait.evaluate(61.0).exit_code == exits.ENDED, "60 s after worker-0 failed"


def test_worker_that_was_never_created_is_waited_for() -> None:
    verdict = after([(0, None)], 1e6)
    assert verdict.exit_code is None
    assert "pi-worker-0 not created yet" in verdict.text


def test_nothing_is_said_of_workers_before_the_first_list() -> None:
    assert after([], 5).text == "0/1 ready · pi-worker-0 not known yet 5 s"


def test_replaced_worker_starts_anew() -> None:
    steps: list[tuple[float, Pod | None]] = [(0, failed(uid="a")), (30, None), (50, pod(uid="b"))]
    assert after(steps, 1000).exit_code is None
    steps.append((1000, failed(uid="b")))
    assert after(steps, 1059).exit_code is None
    assert after(steps, 1060).exit_code == exits.ENDED


def test_failed_worker_that_is_deleted_has_one_clock_for_both() -> None:
    assert after([(0, failed()), (40, None)], 60).exit_code == exits.GONE


def test_replacement_that_can_not_pull_either_has_its_own_grace() -> None:
    steps: list[tuple[float, Pod | None]] = [
        (0, waiting("ErrImagePull", uid="a")),
        (500, waiting("ErrImagePull", uid="b")),
    ]
    assert after(steps, 1000).exit_code is None
    assert after(steps, 1100).exit_code == exits.GRACE_OVER


def test_alternating_reasons_of_one_cause_do_not_stop_its_clock() -> None:
    steps: list[tuple[float, Pod | None]] = [
        (when, waiting("ErrImagePull" if when % 20 else "ImagePullBackOff")) for when in range(0, 600, 10)
    ]
    assert after(steps, 599).exit_code is None
    assert after(steps, 600).exit_code == exits.GRACE_OVER


def test_healed_trouble_starts_anew() -> None:
    steps: list[tuple[float, Pod | None]] = [(0, waiting("ImagePullBackOff")), (500, waiting("ContainerCreating"))]
    assert after(steps, 1e6).exit_code is None


@pytest.mark.parametrize(("ready_s", "code"), [(2, exits.GRACE_OVER), (90, None)])
def test_being_ready_for_a_moment_does_not_forgive_a_crash_loop(ready_s: float, code: int | None) -> None:
    wait = wait_for(W0, W1)
    for when in range(0, 600, 100):
        wait.update(W0, waiting("CrashLoopBackOff"), when)
        wait.update(W0, ready(), when + 1)
        wait.update(W0, waiting("CrashLoopBackOff"), when + 1 + ready_s)
    assert wait.evaluate(600).exit_code == code


def test_timeout_ends_what_has_no_other_end_and_says_where_it_stood() -> None:
    limits = Limits(timeout_s=1800)
    stuck = pod(unscheduled="0/12 nodes are available")
    assert after([(0, stuck)], 1799, limits).check_in_s == 1
    verdict = after([(0, stuck)], 1800, limits)
    assert verdict.exit_code == exits.TIMED_OUT
    assert verdict.text == (
        "gave up after 30 min (--timeout): 0/1 ready · pi-worker-0 unschedulable 30 min: 0/12 nodes are available"
    )


def test_own_cause_is_told_rather_than_the_timeout_of_the_same_moment() -> None:
    assert after([(0, waiting("ImagePullBackOff"))], 600, Limits(timeout_s=600)).exit_code == exits.GRACE_OVER


def test_most_overdue_worker_is_named_and_the_others_counted() -> None:
    wait = wait_for(W0, W1)
    wait.update(W1, waiting("ImagePullBackOff"), 5)
    wait.update(W0, waiting("ImagePullBackOff"), 6)
    verdict = wait.evaluate(700)
    assert verdict.text.startswith("pi-worker-1 ")
    assert "(and 1 more overdue)" in verdict.text


def test_key_changes_with_what_is_lacking_and_not_with_time_or_messages() -> None:
    wait = wait_for(W0, W1)
    wait.update(W0, waiting("ErrImagePull", "one"), 1)
    key = wait.evaluate(2).key
    assert wait.evaluate(100).key == key
    wait.update(W0, waiting("ImagePullBackOff", "two"), 3)
    assert wait.evaluate(101).key == key
    wait.update(W1, pod(), 102)
    assert wait.evaluate(103).key != key


STATES = st.sampled_from([None, pod(), ready(), failed(), waiting("ImagePullBackOff"), waiting("CrashLoopBackOff"),
                          ready(uid="another"), ready(deleting=True), pod(phase="Unknown")])  # fmt: skip


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from([W0, W1]), STATES)))
def test_any_history_gives_a_verdict_that_fits_the_present(history: list[tuple[float, str, Pod | None]]) -> None:
    wait, now, present = wait_for(W0, W1), 0.0, dict.fromkeys((W0, W1))
    states: dict[str, Pod | None] = {**present}
    for passed_s, name, state in history:
        now += passed_s
        states[name] = state
        wait.update(name, state, now)
    verdict = wait.evaluate(now)
    all_ready = all(state is not None and state.ready and not state.deleting for state in states.values())
    assert wait.ready == all_ready
    assert (verdict.exit_code == exits.READY) == all_ready
    assert verdict.check_in_s is None or verdict.check_in_s > 0
