"""The playground's follower: when a job has ended with all that its launcher wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from agents.playground.follow import Follower
from agents.playground.resources import MPI_JOBS, PODS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agents.playground.cluster import Cluster

Object = dict[str, Any]
Change = tuple[str, str, Object]


class Scripted:
    """A cluster: each look sees the next changes."""

    def __init__(self, folder: Path, *looks: Sequence[Change]) -> None:
        self.folder = str(folder)
        self._looks = [[], *looks]

    def changes(self, _after: int, _keys: Sequence[str]) -> Sequence[Change]:
        return self._looks.pop(0) if self._looks else []

    def create(self, body: Object) -> Object:
        return body


def job_of(team: str, *types: str) -> Object:
    conditions = [{"type": one, "status": "True"} for one in types]
    metadata = {"name": "pi", "namespace": team, "uid": f"job of {team}", "resourceVersion": "1"}
    return {"kind": "MPIJob", "metadata": metadata, "status": {"conditions": conditions}}


def launcher(state: Object, **status: Object) -> Object:
    labels = {"mpi-agents/role": "launcher", "mpi-agents/job-uid": "job of team"}
    about = {"name": "pi-launcher", "namespace": "team", "uid": "pod", "labels": labels, "resourceVersion": "1"}
    found = {"phase": "Running", "containerStatuses": [{"name": "mpi", "state": state, **status}]}
    return {"metadata": about, "spec": {"containers": [{"name": "mpi"}]}, "status": found}


def change(thing: Object, kind: str = "MODIFIED") -> Change:
    return (MPI_JOBS.key if "kind" in thing else PODS.key), kind, thing


def follower(scripted: Scripted, told: list[str], output: list[str]) -> Follower:
    made = Follower(cast("Cluster", scripted), told.append, output.append)
    made.apply(job_of("team"))
    return made


def write(folder: Path, data: bytes) -> None:
    log = folder / "pods" / "pi-launcher.pod" / "mpi.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(data)


ENDED = {"terminated": {"exitCode": 5}}


@pytest.mark.parametrize(
    "last",
    [
        change(launcher(ENDED)),
        change(launcher({"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ENDED), "DELETED"),
    ],
    ids=["a launcher that has ended", "a launcher that was never seen running, and is gone"],
)
def test_a_job_that_has_ended_has_its_output_and_exit_code(tmp_path: Path, last: Change) -> None:
    write(tmp_path, b"a rank's line\nand one without an end")
    output: list[str] = []
    made = follower(Scripted(tmp_path, [last, change(job_of("team", "Failed"))]), [], output)
    made.until(made.ended, lambda: None)
    assert (output, made.exit_code()) == (["a rank's line\n", "and one without an end"], 5)


def test_output_is_shown_as_it_is_written_line_by_line(tmp_path: Path) -> None:
    output: list[str] = []
    made = follower(Scripted(tmp_path, [change(launcher({"running": {}}))]), [], output)
    write(tmp_path, b"one\nt")
    made.until(lambda: bool(output), lambda: None)
    assert output == ["one\n"]
    write(tmp_path, b"wo\n")
    made.until(lambda: len(output) > 1, lambda: None)
    assert output == ["one\n", "two\n"]
    assert not made.ended()


def test_jobs_of_one_name_in_two_namespaces_end_each_by_itself(tmp_path: Path) -> None:
    told: list[str] = []
    scripted = Scripted(tmp_path, [change(job_of("team", "Succeeded"))], [change(job_of("other", "Failed"))])
    made = follower(scripted, told, [])
    made.apply(job_of("other"))
    made.until(lambda: bool(told), lambda: None)
    assert not made.ended()
    made.until(made.ended, lambda: None)
    assert made.exit_code() == 1


def test_what_the_check_raises_ends_the_following(tmp_path: Path) -> None:
    def check() -> None:
        raise RuntimeError("the operator has ended")

    made = follower(Scripted(tmp_path), [], [])
    with pytest.raises(RuntimeError):
        made.until(made.ended, check)
