"""Each state of a pod: its message, and how long to tolerate it; and many of them in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from delivery_pods import container, failed, pod, ready, waiting

from agents.common import durations
from agents.common.not_ready import NotReady, Tolerance, not_ready, summary
from delivery import exits

if TYPE_CHECKING:
    from agents.common.pods import Pod

FULL = "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."
LOW = "The node was low on resource: memory."
UP: dict[str, Any] = {"phase": "Running", "ips": ("10.0.0.7",)}

# name of the case → (pod, words, patience)
CASES: dict[str, tuple[Pod, str, Tolerance]] = {
    "waits for the scheduler": (pod(node=""), "waiting for a node", Tolerance.UNLIMITED),
    "unschedulable": (
        pod(node="", unscheduled=FULL, unscheduled_reason="Unschedulable"),
        f"unschedulable: {FULL}",
        Tolerance.UNLIMITED,
    ),
    "unschedulable without words": (
        pod(node="", unscheduled_reason="Unschedulable"),
        "unschedulable",
        Tolerance.UNLIMITED,
    ),
    "scheduling gate": (
        pod(node="", unscheduled="Scheduling is blocked due to non-empty scheduling gates",
            unscheduled_reason="SchedulingGated"),
        "held back by a scheduling gate",
        Tolerance.UNLIMITED,
    ),
    "on a node": (pod(), "not started by its node", Tolerance.UNLIMITED),
    "no sandbox yet": (waiting("ContainerCreating"), "pulling image or mounting volumes", Tolerance.UNLIMITED),
    "sandbox is up": (waiting("ContainerCreating", ips=("10.0.0.7",)), "pulling image", Tolerance.UNLIMITED),
    "init container pulls": (
        pod(ips=("10.0.0.7",), containers=(container("setup", init=True, reason="ContainerCreating"),
                                           container(reason="PodInitializing"))),
        "pulling image of init container setup",
        Tolerance.UNLIMITED,
    ),
    "init container runs": (
        pod(ips=("10.0.0.7",), containers=(container("setup", init=True, state="running"),
                                           container(reason="PodInitializing"))),
        "running init container setup",
        Tolerance.UNLIMITED,
    ),
    "between init containers": (
        pod(ips=("10.0.0.7",), containers=(container("one", init=True, state="terminated", exit_code=0, ready=True),
                                           container("two", init=True, reason="PodInitializing"),
                                           container(reason="PodInitializing"))),
        "pulling image of init container two",
        Tolerance.UNLIMITED,
    ),
    "init container fails": (
        pod(containers=(container("setup", init=True, state="terminated", reason="Error", exit_code=3),
                        container(reason="PodInitializing"))),
        "init container setup exited with 3",
        Tolerance.GRACE,
    ),
    "init container crashes again and again": (
        pod(containers=(container("setup", init=True, reason="CrashLoopBackOff", restarts=4, last_reason="Error",
                                  last_exit_code=3),
                        container(reason="PodInitializing"))),
        "init container setup crashes again and again (exit 3)",
        Tolerance.GRACE,
    ),
    "sidecar runs, main container pulls": (
        pod(ips=("10.0.0.7",), containers=(container("agent", init=True, state="running", ready=True),
                                           container(reason="PodInitializing"))),
        "pulling image",
        Tolerance.UNLIMITED,
    ),
    "not ready": (
        pod(**UP, containers=(container(state="running"),)),
        "running, container mpi not ready yet",
        Tolerance.UNLIMITED,
    ),
    "init container done, not ready": (
        pod(**UP, containers=(container("setup", init=True, state="terminated", exit_code=0, ready=True),
                              container(state="running"))),
        "running, container mpi not ready yet",
        Tolerance.UNLIMITED,
    ),
    "another container was restarted once and is well": (
        pod(**UP, containers=(container("log", state="running", restarts=1, ready=True), container(state="running"))),
        "running, container mpi not ready yet",
        Tolerance.UNLIMITED,
    ),
    "sidecar not ready, main container is": (
        pod(**UP, containers=(container("agent", init=True, state="running"),
                              container(state="running", ready=True))),
        "running, not ready yet",
        Tolerance.UNLIMITED,
    ),
    "ready without an address": (ready(ips=()), "ready but without an address", Tolerance.UNLIMITED),
    "image name is wrong": (
        waiting("InvalidImageName", "couldn't parse image name"),
        "container mpi can never start (InvalidImageName): couldn't parse image name",
        Tolerance.NONE,
    ),
    "image can't be had": (
        waiting("ImagePullBackOff", 'Back-off pulling image "x"'),
        'container mpi can\'t get its image (ImagePullBackOff): Back-off pulling image "x"',
        Tolerance.GRACE,
    ),
    "image pull fails": (
        waiting("ErrImagePull", "unauthorized"),
        "container mpi can't get its image (ErrImagePull): unauthorized",
        Tolerance.GRACE,
    ),
    "image is not on the node": (
        waiting("ErrImageNeverPull"),
        "container mpi can't get its image (ErrImageNeverPull)",
        Tolerance.GRACE,
    ),
    "secret is missing": (
        waiting("CreateContainerConfigError", 'secret "s" not found'),
        'container mpi can\'t be created (CreateContainerConfigError): secret "s" not found',
        Tolerance.GRACE,
    ),
    "a reason that nobody knew": (waiting("Gremlins"), "container mpi waits (Gremlins)", Tolerance.GRACE),
    "crashes": (
        waiting("CrashLoopBackOff", phase="Running"),
        "container mpi crashes again and again",
        Tolerance.GRACE,
    ),
    "ended, to be restarted": (
        pod(**UP, containers=(container(state="terminated", exit_code=1, reason="Error"),)),
        "container mpi exited with 1",
        Tolerance.GRACE,
    ),
    "ended well, though it should run": (
        pod(**UP, containers=(container(state="terminated", exit_code=0, reason="Completed"),)),
        "container mpi ended by itself (exit 0)",
        Tolerance.GRACE,
    ),
    "runs again after a crash": (
        pod(**UP, containers=(container(state="running", restarts=2, last_reason="OOMKilled", last_exit_code=137),)),
        "container mpi was restarted (OOMKilled), not ready again yet",
        Tolerance.GRACE,
    ),
    "its program has ended, and a sidecar behind it": (
        pod(**UP, containers=(container("agent", init=True, sidecar=True, state="terminated", exit_code=0),
                              container(state="terminated", exit_code=0, reason="Completed"))),
        "container mpi ended by itself (exit 0)",
        Tolerance.GRACE,
    ),
    "being deleted": (ready(deleting=True), "being deleted", Tolerance.GRACE),
    "being deleted though failed": (failed(deleting=True), "being deleted", Tolerance.GRACE),
    "node lost": (
        pod(phase="Unknown", reason="NodeLost", message="Node node-1 which was running pod is unresponsive"),
        "on a node that does not report (NodeLost): Node node-1 which was running pod is unresponsive",
        Tolerance.GRACE,
    ),
    "evicted": (
        failed(reason="Evicted", message=LOW),
        f"evicted: {LOW}",
        Tolerance.REPLACEMENT,
    ),
    "failed": (failed(code=7), "failed: container mpi exited with 7", Tolerance.REPLACEMENT),
    "out of memory": (
        pod(phase="Failed", containers=(container(state="terminated", reason="OOMKilled", exit_code=137),)),
        "failed: container mpi exited with 137 (OOMKilled)",
        Tolerance.REPLACEMENT,
    ),
    "refused by the node": (
        pod(phase="Failed", reason="OutOfcpu", message="Pod was rejected"),
        "failed (OutOfcpu): Pod was rejected",
        Tolerance.REPLACEMENT,
    ),
    "failed without a word": (pod(phase="Failed"), "failed", Tolerance.REPLACEMENT),
    "succeeded": (
        pod(phase="Succeeded"),
        "ended by itself (Succeeded) before the job could begin",
        Tolerance.REPLACEMENT,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("state", "words", "patience"), CASES.values(), ids=CASES)
def test_state_is_told_and_waited_for(state: Pod, words: str, patience: Tolerance) -> None:
    reason = not_ready(state, was_seen=True)
    assert reason is not None
    assert (": ".join(filter(None, (reason.message, reason.detail))), reason.tolerance) == (words, patience)


def test_a_ready_pod_has_no_reason() -> None:
    assert not_ready(ready()) is None


def test_pod_that_was_never_there_is_waited_for_and_a_lost_one_must_come_back() -> None:
    never, lost = not_ready(None), not_ready(None, was_seen=True)
    assert never is not None
    assert lost is not None
    assert (never.message, never.tolerance) == ("not created yet", Tolerance.UNLIMITED)
    assert (lost.message, lost.tolerance, exits.of_reason(lost)) == ("gone", Tolerance.REPLACEMENT, exits.GONE)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (waiting("InvalidImageName"), exits.CANNOT_START),
        (failed(), exits.ENDED),
        (pod(phase="Succeeded"), exits.ENDED),
        (waiting("ImagePullBackOff"), exits.GRACE_OVER),
        (ready(deleting=True), exits.GRACE_OVER),
    ],
)
def test_exit_code_of_a_reason(state: Pod, code: int) -> None:
    reason = not_ready(state)
    assert reason is not None
    assert exits.of_reason(reason) == code


def test_trouble_of_any_container_is_told_before_progress_of_another() -> None:
    states = (container("sidecar", reason="ContainerCreating"), container(reason="ImagePullBackOff"))
    reason = not_ready(pod(ips=("10.0.0.7",), containers=states))
    assert reason is not None
    assert reason.kind == "image"


def test_two_reasons_of_a_missing_image_share_a_clock() -> None:
    assert {found.kind for name in ("ErrImagePull", "ImagePullBackOff") if (found := not_ready(waiting(name)))} == {
        "image"
    }


def test_message_becomes_one_short_printable_line() -> None:
    reason = not_ready(waiting("CreateContainerError", "one\ntwo\x1b[31m" + "x" * 500))
    assert reason is not None
    assert reason.detail.startswith("one two?[31mxxx")
    assert len(reason.detail) <= 240


LAST_WORDS = "sshd-start: no sshd in this image"
SAYING: dict[str, tuple[Pod, str]] = {
    "ended": (pod(containers=(container(state="terminated", exit_code=127, message=LAST_WORDS),)), LAST_WORDS),
    "ends again and again": (
        pod(containers=(container(reason="CrashLoopBackOff", last_exit_code=127, last_message=LAST_WORDS),)),
        LAST_WORDS,
    ),
    "was started again": (
        pod(phase="Running", containers=(container(state="running", restarts=1, last_message=LAST_WORDS),)),
        LAST_WORDS,
    ),
    "the whole pod has failed": (
        pod(phase="Failed", containers=(container(state="terminated", exit_code=127, message=LAST_WORDS),)),
        f"container mpi exited with 127: {LAST_WORDS}",
    ),
    "the pod knows better": (
        pod(
            phase="Failed",
            reason="Evicted",
            message="low on memory",
            containers=(container(state="terminated", exit_code=137, message=LAST_WORDS),),
        ),
        "low on memory",
    ),
}


@pytest.mark.parametrize(("state", "detail"), SAYING.values(), ids=SAYING)
def test_a_containers_last_words_are_told(state: Pod, detail: str) -> None:
    reason = not_ready(state)
    assert reason is not None
    assert reason.detail == detail


# In one line.

PULL = NotReady("pull", "pulling image")
IMAGE = NotReady("image", "container mpi can't get its image (ErrImagePull)", "denied", Tolerance.GRACE)


def test_workers_with_the_same_lack_are_named_together_with_the_longest_time() -> None:
    assert summary(0, 2, [("a", PULL, 3.0), ("b", PULL, 70.0)]) == "0/2 ready · a, b pulling image 1 min 10 s"


def test_many_are_counted() -> None:
    lacking = [(f"worker-{number}", PULL, 0.0) for number in range(998)]
    assert summary(2, 1000, lacking) == "2/1000 ready · worker-0, worker-1 and 996 more pulling image"


def test_trouble_is_told_first() -> None:
    text = summary(0, 2, [("a", PULL, 5.0), ("b", IMAGE, 5.0)])
    assert text == "0/2 ready · b container mpi can't get its image (ErrImagePull) 5 s: denied · a pulling image 5 s"


def test_many_different_lacks_do_not_make_an_endless_line() -> None:
    lacking = [(f"w{number}", NotReady("unschedulable", "unschedulable", str(number)), 0.0) for number in range(50)]
    assert summary(0, 50, lacking).endswith(" · 45 more for other reasons")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min"), (-1, "0 s")],
)
def test_durations_are_told_in_words(seconds: float, words: str) -> None:
    assert durations.words(seconds) == words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5 h", 5400),
        ("250ms", 0.25),
        ("0", 0),
        ("2 min", 120),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert durations.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10x", "-5", "5m and", "1h-5m", "٣s", "m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        durations.parse(text)
