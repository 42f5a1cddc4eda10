"""When the worker agent prepares the Secret's keys again, and looks at its mounted folders."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agents.common.loop import Loop
from agents.worker import mounted
from agents.worker.mounted import FolderWatch
from sshd_bootstrap.prepare import prepare
from sshd_bootstrap.rotation import KeyRotation
from sshd_bootstrap.settings import Settings
from tests.keys import write_keys
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path


class Job:
    """A worker's Secret and volume, prepared, and what the agent says of them."""

    def __init__(self, folder: Path) -> None:
        self.keys, self.volume, tools = (folder / name for name in ("keys", "volume", "tools"))
        for path in (self.keys, self.volume, tools):
            path.mkdir()
        (tools / "sshd-start").write_bytes(b"program")
        environ = {"MPI_SSH_KEYS": self.keys, "MPI_SSH_VOLUME": self.volume, "MPI_AGENT_TOOLS": tools}
        self.environ = {name: str(path) for name, path in environ.items()}
        self.said: list[str] = []
        self.rotate()
        prepare(Settings.load(self.environ))
        in_use = str(self.volume / "run" / "ssh_host_key")
        self.rotation = KeyRotation(
            str(self.keys), in_use, lambda: prepare(Settings.load(self.environ)), self.said.append
        )

    def rotate(self) -> None:
        write_keys(self.keys)

    def in_force(self) -> set[bytes]:
        names = ("auth/id_rsa", "run/identity", "run/ssh_host_key")
        return {(self.volume / name).read_bytes() for name in names}

    def wanted(self) -> set[bytes]:
        return {(self.keys / "ssh-privatekey").read_bytes()}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_the_same_keys_are_left_alone(job: Job) -> None:
    job.rotation.look()
    assert (job.rotation.done, job.said) == (0, [])


def test_other_keys_are_prepared_once(job: Job) -> None:
    job.rotate()
    job.rotation.look()
    job.rotation.look()
    assert (job.rotation.done, len(job.said)) == (1, 1)
    assert job.in_force() == job.wanted()


def test_a_preparation_that_was_broken_off_is_taken_up_again(job: Job) -> None:
    job.rotate()
    obstacle = job.volume / "run" / ".authorized_keys.part"
    obstacle.mkdir()
    job.rotation.look()
    assert job.rotation.failed == 1
    assert "the previous ones stay in use" in job.said[0]
    obstacle.rmdir()
    job.rotation.look()
    assert job.rotation.done == 1
    assert job.in_force() == job.wanted()


@pytest.mark.parametrize("name", ["identity", "ssh_host_key"])
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "endless"])
def test_what_the_users_container_puts_there_holds_nobody_up(job: Job, name: str, kind: str) -> None:
    path, pipe = job.volume / "run" / name, job.volume / "pipe"
    os.mkfifo(pipe)
    path.unlink()
    if kind == "pipe":
        pipe.rename(path)
    else:
        path.symlink_to(pipe if kind == "link to a pipe" else "/dev/zero")
    job.rotate()
    job.rotation.look()
    assert job.rotation.done == 1
    assert job.in_force() == job.wanted()


def test_the_old_keys_after_broken_ones_are_told(job: Job) -> None:
    private = job.keys / "ssh-privatekey"
    old = private.read_bytes()
    private.write_bytes(b"broken")
    job.rotation.look()
    job.rotation.look()
    private.write_bytes(old)
    job.rotation.look()
    job.rotation.look()
    assert job.said[1:] == ["the keys in the Secret are the previous ones again"]
    assert (job.rotation.done, job.rotation.failed) == (0, 1)
    private.write_bytes(b"broken")
    job.rotation.look()
    assert job.rotation.failed == 2


# Its mounted folders.


def test_what_no_event_has_told_is_seen_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted, "ANYWAY_MS", 1)
    loop, looks = Loop(), list[float]()

    def changed() -> None:
        looks.append(loop.now())
        if len(looks) == 2:
            loop.stop()

    watched = FolderWatch(loop, [str(tmp_path)], changed, lambda line: None)
    loop.call_later(DEADLINE_S, loop.stop)
    loop.run()
    watched.close()
    assert len(looks) == 2
