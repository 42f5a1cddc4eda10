"""The playground's follower: when a job has come to its end with all that its launcher wrote."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from agents.playground.follow import Follower

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agents.playground.client import Client

Object = dict[str, Any]

JOB = {"kind": "MPIJob", "metadata": {"name": "pi", "namespace": "team", "uid": "job"}}
ENDED = {**JOB, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}


def launcher(version: int, state: Object) -> Object:
    labels = {"mpi-agents/role": "launcher", "mpi-agents/job-uid": "job"}
    about = {
        "name": "pi-launcher",
        "namespace": "team",
        "uid": "pod",
        "labels": labels,
        "resourceVersion": str(version),
    }
    status = {"phase": "Running", "containerStatuses": [{"name": "mpi", "state": state}]}
    return {"metadata": about, "spec": {"containers": [{"name": "mpi"}]}, "status": status}


class Scripted:
    """A client whose watch tells of the job's end first, and of its launcher's beginning when that is all read."""

    def __init__(self) -> None:
        self.is_read = threading.Event()

    def create(self, body: Object) -> Object:
        return body

    def list(self, path: str) -> Object:
        items = [launcher(9, {"terminated": {"exitCode": 5}})] if path.endswith("/pods") else []
        return {"metadata": {"resourceVersion": "10"}, "items": items}

    def watch(self, path: str, _version: str) -> Iterator[Object]:
        if "kubeflow.org" in path:
            yield {"type": "MODIFIED", "object": ENDED}
        if path.endswith("/pods"):
            self.is_read.wait()
            yield {"type": "ADDED", "object": launcher(3, {"running": {}})}

    def follow(self, *_: str) -> Iterator[str]:
        self.is_read.set()
        yield "a rank's line\n"


def test_a_job_whose_end_is_told_before_its_pods_keeps_its_output_and_exit_code() -> None:
    told: list[str] = []
    follower = Follower(cast("Client", Scripted()), lambda _line: None, told.append)
    follower.apply(JOB)
    follower.until(follower.ended, lambda: None)
    assert (told, follower.exit_code()) == (["a rank's line\n"], 5)


class Namesakes(Scripted):
    """Two jobs of one name in two namespaces; the second ends when the first one's end has been taken in."""

    def __init__(self) -> None:
        super().__init__()
        self.is_taken = threading.Event()

    def list(self, _path: str) -> Object:
        return {"metadata": {"resourceVersion": "10"}, "items": []}

    def watch(self, path: str, _version: str) -> Iterator[Object]:
        if "/apis/kubeflow.org" in path:
            yield {"type": "MODIFIED", "object": job_of("one", "Succeeded")}
            self.is_taken.wait()
            yield {"type": "MODIFIED", "object": job_of("two", "Failed")}


def job_of(team: str, *types: str) -> Object:
    conditions = [{"type": one, "status": "True"} for one in types]
    metadata = {"name": "pi", "namespace": team, "uid": f"job of {team}"}
    return {"kind": "MPIJob", "metadata": metadata, "status": {"conditions": conditions}}


def test_jobs_of_one_name_in_two_namespaces_end_each_by_itself() -> None:
    client, told = Namesakes(), list[str]()
    follower = Follower(cast("Client", client), told.append, lambda _line: None)
    follower.apply(job_of("one"), job_of("two"))
    follower.until(lambda: bool(told), lambda: None)
    assert not follower.ended()
    client.is_taken.set()
    follower.until(follower.ended, lambda: None)
    assert follower.exit_code() == 1


class EndsAtOnce(Scripted):
    """Its launcher ends sooner than anybody can see it run."""

    def __init__(self) -> None:
        super().__init__()
        self.is_taken = threading.Event()

    def list(self, path: str) -> Object:
        return super().list(path) | {"items": []}

    def watch(self, path: str, _version: str) -> Iterator[Object]:
        if path.endswith("/pods"):
            waiting = launcher(3, {"waiting": {"reason": "CrashLoopBackOff"}})
            waiting["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"exitCode": 5}}
            yield {"type": "MODIFIED", "object": waiting}
            self.is_taken.wait()
        if "kubeflow.org" in path:
            self.is_taken.wait()
            yield {"type": "MODIFIED", "object": ENDED}


def test_a_launcher_that_is_never_seen_running_keeps_its_output() -> None:
    client = EndsAtOnce()
    told: list[str] = []
    follower = Follower(cast("Client", client), lambda _line: client.is_taken.set(), told.append)
    follower.apply(JOB)
    follower.until(follower.ended, lambda: None)
    assert told == ["a rank's line\n"]
    assert follower.exit_code() == 5
