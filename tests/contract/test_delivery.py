"""Delivery as its own process: which workers it waits for, and what each state of theirs comes to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from delivery_exec import LABELS, Launcher, cluster, launcher, shared

from delivery import exits

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cluster", "launcher", "shared"]


def test_ready_workers_are_written_down_and_the_client_is_in_place(launcher: Launcher) -> None:
    names = launcher.workers(3)
    assert launcher.run("-alsologtostderr") == exits.READY
    assert launcher.hosts() == [f"{launcher.cluster.pod_address(name)}\t{name}" for name in names]
    assert (launcher.kube / "rshagent").stat().st_mode & 0o777 == 0o755
    assert launcher.last_line.startswith("3/3 ready")
    assert launcher.log.read_text() == ""


def test_workers_that_come_one_after_another(launcher: Launcher) -> None:
    names = launcher.workers(8, state="pulling")
    launcher.start()
    launcher.until_told("0/8 ready · pi-worker-0, pi-worker-1 and 6 more pulling image")
    for name in names[:-1]:
        launcher.cluster.set_state(name, "ready")
    launcher.until_told("7/8 ready · pi-worker-7 pulling image")
    launcher.cluster.set_state(names[-1], "ready")
    assert launcher.end() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == names


def test_any_number_of_workers_costs_one_look_at_the_own_pod_one_list_and_one_watch(launcher: Launcher) -> None:
    names = launcher.workers(30, state="pulling")
    launcher.cluster.reset_stats()
    launcher.start()
    launcher.until_told(
        "waiting for 30 workers, among the pods of namespace default with training.kubeflow.org/job-name=pi"
    )
    launcher.until_told("pulling image")
    for name in names:
        launcher.cluster.set_state(name, "ready")
    assert launcher.end() == exits.READY
    requests = launcher.cluster.stats()["requests"]
    assert {kind: requests.get(kind) for kind in ("get", "list", "watch")} == {"get": 1, "list": 1, "watch": 1}


def test_replaced_worker_is_written_down_with_its_new_address(launcher: Launcher) -> None:
    first, second = launcher.workers(2, state="pulling")
    launcher.cluster.set_state(first, "ready")
    old = launcher.cluster.pod_address(first)
    launcher.start()
    launcher.until_told("1/2 ready")
    launcher.cluster.delete_pod(first)
    launcher.until_told("0/2 ready · pi-worker-0 gone")
    launcher.cluster.create_pod(first, labels=LABELS)
    launcher.until_told("1/2 ready · pi-worker-1 pulling image")
    launcher.cluster.set_state(second, "ready")
    assert launcher.end() == exits.READY
    assert launcher.cluster.pod_address(first) != old
    assert launcher.hosts()[0] == f"{launcher.cluster.pod_address(first)}\t{first}"


ENDS = {
    "invalid-image-name": (exits.CANNOT_START, "pi-worker-1 container worker can never start (InvalidImageName)"),
    "failed": (exits.ENDED, "pi-worker-1 failed and not replaced within N s: container worker exited with 1"),
    "image-pull-backoff": (exits.GRACE_OVER, "pi-worker-1 container worker can't get its image (ImagePullBackOff)"),
    "unschedulable": (exits.TIMED_OUT, "1/2 ready · pi-worker-1 unschedulable"),
}


@pytest.mark.parametrize("state", ENDS)
def test_state_that_lasts_ends_the_wait_with_its_code_and_reason(launcher: Launcher, state: str) -> None:
    """The limits are short, and the time limit as a whole too where there is no other."""
    _, second = launcher.workers(2)
    launcher.cluster.set_state(second, state)
    code, words = ENDS[state]
    limits = ["--grace", "200ms", "--replacement", "200ms"]
    assert launcher.run(*limits, *(["--timeout", "5s"] if code == exits.TIMED_OUT else [])) == code
    assert words in re.sub(r"\b\d+ s\b", "N s", launcher.last_line)
    assert launcher.last_line == f"mpi-delivery: {launcher.log.read_text()}"
    assert not (launcher.kube / "hosts").exists()


def replace(hostfile: Path, text: str) -> None:
    """Write as a ConfigMap's volume does: another file in its place."""
    fresh = hostfile.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(hostfile)


def test_worker_that_the_hostfile_no_longer_has_is_not_waited_for(launcher: Launcher) -> None:
    names = launcher.workers(3)
    launcher.cluster.set_state(names[0], "running")
    launcher.cluster.delete_pod(names[2])
    launcher.start()
    launcher.until_told("1/3 ready")
    replace(launcher.hostfile, "".join(f"{name} slots=1\n" for name in names[:2]))
    launcher.until_told("the hostfile has changed: waiting for 2 workers")
    launcher.cluster.set_state(names[0], "ready")
    assert launcher.end() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == names[:2]
    assert launcher.last_line.startswith("2/2 ready after")


def test_worker_that_comes_into_the_hostfile_is_waited_for_too(launcher: Launcher) -> None:
    names = launcher.workers(1)
    launcher.cluster.set_state(names[0], "running")
    launcher.start()
    launcher.until_told("0/1 ready")
    launcher.hostfile.unlink()
    replace(launcher.hostfile, "pi-worker-0\npi-worker-1\n")
    launcher.until_told("the hostfile has changed: waiting for 2 workers")
    launcher.cluster.set_state(names[0], "ready")
    launcher.until_told("1/2 ready · pi-worker-1 not created yet")
    launcher.cluster.create_pod("pi-worker-1", labels=LABELS)
    assert launcher.end() == exits.READY
    assert [line.split("\t")[1] for line in launcher.hosts()] == ["pi-worker-0", "pi-worker-1"]
