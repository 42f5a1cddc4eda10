"""Each state of a pod: what is told of it, and how long it is worth waiting for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from delivery_pods import container, failed, pod, ready, waiting

from delivery import exits
from delivery.lack import Patience, lack_of

if TYPE_CHECKING:
    from rshagent.pods import Pod

FULL = "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."
LOW = "The node was low on resource: memory."
UP: dict[str, Any] = {"phase": "Running", "ips": ("10.0.0.7",)}

# name of the case → (pod, words, patience)
CASES: dict[str, tuple[Pod, str, Patience]] = {
    "waits for the scheduler": (pod(node=""), "waiting for a node", Patience.ENDLESS),
    "unschedulable": (
        pod(node="", unscheduled=FULL, unscheduled_reason="Unschedulable"),
        f"unschedulable: {FULL}",
        Patience.ENDLESS,
    ),
    "unschedulable without words": (
        pod(node="", unscheduled_reason="Unschedulable"),
        "unschedulable",
        Patience.ENDLESS,
    ),
    "scheduling gate": (
        pod(node="", unscheduled="Scheduling is blocked due to non-empty scheduling gates",
            unscheduled_reason="SchedulingGated"),
        "held back by a scheduling gate",
        Patience.ENDLESS,
    ),
    "on a node": (pod(), "not begun by its node yet", Patience.ENDLESS),
    "no sandbox yet": (waiting("ContainerCreating"), "pulling image or mounting volumes", Patience.ENDLESS),
    "sandbox is up": (waiting("ContainerCreating", ips=("10.0.0.7",)), "pulling image", Patience.ENDLESS),
    "init container pulls": (
        pod(ips=("10.0.0.7",), containers=(container("setup", init=True, reason="ContainerCreating"),
                                           container(reason="PodInitializing"))),
        "pulling image of init container setup",
        Patience.ENDLESS,
    ),
    "init container runs": (
        pod(ips=("10.0.0.7",), containers=(container("setup", init=True, state="running"),
                                           container(reason="PodInitializing"))),
        "running init container setup",
        Patience.ENDLESS,
    ),
    "between init containers": (
        pod(ips=("10.0.0.7",), containers=(container("one", init=True, state="terminated", exit_code=0, ready=True),
                                           container("two", init=True, reason="PodInitializing"),
                                           container(reason="PodInitializing"))),
        "pulling image of init container two",
        Patience.ENDLESS,
    ),
    "init container fails": (
        pod(containers=(container("setup", init=True, state="terminated", reason="Error", exit_code=3),
                        container(reason="PodInitializing"))),
        "init container setup ended with 3",
        Patience.GRACE,
    ),
    "init container crashes again and again": (
        pod(containers=(container("setup", init=True, reason="CrashLoopBackOff", restarts=4, last_reason="Error",
                                  last_exit_code=3),
                        container(reason="PodInitializing"))),
        "init container setup crashes again and again (exit 3)",
        Patience.GRACE,
    ),
    "sidecar runs, main container pulls": (
        pod(ips=("10.0.0.7",), containers=(container("agent", init=True, state="running", ready=True),
                                           container(reason="PodInitializing"))),
        "pulling image",
        Patience.ENDLESS,
    ),
    "not ready": (
        pod(**UP, containers=(container(state="running"),)),
        "running, container mpi not ready yet",
        Patience.ENDLESS,
    ),
    "init container done, not ready": (
        pod(**UP, containers=(container("setup", init=True, state="terminated", exit_code=0, ready=True),
                              container(state="running"))),
        "running, container mpi not ready yet",
        Patience.ENDLESS,
    ),
    "another container was restarted once and is well": (
        pod(**UP, containers=(container("log", state="running", restarts=1, ready=True), container(state="running"))),
        "running, container mpi not ready yet",
        Patience.ENDLESS,
    ),
    "sidecar not ready, main container is": (
        pod(**UP, containers=(container("agent", init=True, state="running"),
                              container(state="running", ready=True))),
        "running, not ready yet",
        Patience.ENDLESS,
    ),
    "ready without an address": (ready(ips=()), "ready but without an address", Patience.ENDLESS),
    "image name is wrong": (
        waiting("InvalidImageName", "couldn't parse image name"),
        "container mpi can never start (InvalidImageName): couldn't parse image name",
        Patience.NONE,
    ),
    "image can't be had": (
        waiting("ImagePullBackOff", 'Back-off pulling image "x"'),
        'container mpi can\'t get its image (ImagePullBackOff): Back-off pulling image "x"',
        Patience.GRACE,
    ),
    "image pull fails": (
        waiting("ErrImagePull", "unauthorized"),
        "container mpi can't get its image (ErrImagePull): unauthorized",
        Patience.GRACE,
    ),
    "image is not on the node": (
        waiting("ErrImageNeverPull"),
        "container mpi can't get its image (ErrImageNeverPull)",
        Patience.GRACE,
    ),
    "secret is missing": (
        waiting("CreateContainerConfigError", 'secret "s" not found'),
        'container mpi can\'t be created (CreateContainerConfigError): secret "s" not found',
        Patience.GRACE,
    ),
    "a reason that nobody knew": (waiting("Gremlins"), "container mpi waits (Gremlins)", Patience.GRACE),
    "crashes": (
        waiting("CrashLoopBackOff", phase="Running"),
        "container mpi crashes again and again",
        Patience.GRACE,
    ),
    "ended, to be restarted": (
        pod(**UP, containers=(container(state="terminated", exit_code=1, reason="Error"),)),
        "container mpi ended with 1",
        Patience.GRACE,
    ),
    "ended well, though it should run": (
        pod(**UP, containers=(container(state="terminated", exit_code=0, reason="Completed"),)),
        "container mpi ended by itself (exit 0)",
        Patience.GRACE,
    ),
    "runs again after a crash": (
        pod(**UP, containers=(container(state="running", restarts=2, last_reason="OOMKilled", last_exit_code=137),)),
        "container mpi was restarted (OOMKilled), not ready again yet",
        Patience.GRACE,
    ),
    "being deleted": (ready(deleting=True), "being deleted", Patience.GRACE),
    "being deleted though failed": (failed(deleting=True), "being deleted", Patience.GRACE),
    "node lost": (
        pod(phase="Unknown", reason="NodeLost", message="Node node-1 which was running pod is unresponsive"),
        "on a node that does not report (NodeLost): Node node-1 which was running pod is unresponsive",
        Patience.GRACE,
    ),
    "evicted": (
        failed(reason="Evicted", message=LOW),
        f"evicted: {LOW}",
        Patience.REPLACEMENT,
    ),
    "failed": (failed(code=7), "failed: container mpi ended with 7", Patience.REPLACEMENT),
    "out of memory": (
        pod(phase="Failed", containers=(container(state="terminated", reason="OOMKilled", exit_code=137),)),
        "failed: container mpi ran out of memory (OOMKilled)",
        Patience.REPLACEMENT,
    ),
    "refused by the node": (
        pod(phase="Failed", reason="OutOfcpu", message="Pod was rejected"),
        "failed (OutOfcpu): Pod was rejected",
        Patience.REPLACEMENT,
    ),
    "failed without a word": (pod(phase="Failed"), "failed", Patience.REPLACEMENT),
    "succeeded": (
        pod(phase="Succeeded"),
        "ended by itself (Succeeded) before the job could begin",
        Patience.REPLACEMENT,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("state", "words", "patience"), CASES.values(), ids=CASES)
def test_state_is_told_and_waited_for(state: Pod, words: str, patience: Patience) -> None:
    lack = lack_of(state, was_seen=True)
    assert lack is not None
    assert (": ".join(filter(None, (lack.words, lack.detail))), lack.patience) == (words, patience)


def test_ready_pod_lacks_nothing() -> None:
    assert lack_of(ready()) is None


def test_pod_that_was_never_there_is_waited_for_and_a_lost_one_must_come_back() -> None:
    never, lost = lack_of(None), lack_of(None, was_seen=True)
    assert never is not None
    assert lost is not None
    assert (never.words, never.patience) == ("not created yet", Patience.ENDLESS)
    assert (lost.words, lost.patience, lost.exit_code) == ("gone", Patience.REPLACEMENT, exits.GONE)


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
def test_exit_code_of_a_lack(state: Pod, code: int) -> None:
    lack = lack_of(state)
    assert lack is not None
    assert lack.exit_code == code


def test_trouble_of_any_container_is_told_before_progress_of_another() -> None:
    states = (container("sidecar", reason="ContainerCreating"), container(reason="ImagePullBackOff"))
    lack = lack_of(pod(ips=("10.0.0.7",), containers=states))
    assert lack is not None
    assert lack.kind == "image"


def test_two_reasons_of_a_missing_image_share_a_clock() -> None:
    assert {lack.kind for reason in ("ErrImagePull", "ImagePullBackOff") if (lack := lack_of(waiting(reason)))} == {
        "image"
    }


def test_message_becomes_one_short_printable_line() -> None:
    lack = lack_of(waiting("CreateContainerError", "one\ntwo\x1b[31m" + "x" * 500))
    assert lack is not None
    assert lack.detail.startswith("one two?[31mxxx")
    assert len(lack.detail) <= 240


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
        f"container mpi ended with 127: {LAST_WORDS}",
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
    lack = lack_of(state)
    assert lack is not None
    assert lack.detail == detail
