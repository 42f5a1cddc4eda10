"""ssh's files in a launcher: when they are taken for prepared, and what is said of keys that change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from delivery.cli import command
from delivery.exits import READY, SSH_FILES, DeliveryError
from delivery.sshd import launcher as launcher_module
from delivery.sshd.launcher import Files, StartGate
from sshd_bootstrap import cli
from tests.keys import key_pair

if TYPE_CHECKING:
    from pathlib import Path

Pair = dict[str, bytes]


class Launcher:
    """A launcher whose start prepares ssh beside delivery."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("keys", "volume", "tools"):
            (folder / name).mkdir()
        (folder / "tools" / "sshd-start").write_bytes(b"program")
        self.environ = {
            "MPI_SSH_ROLE": "launcher",
            "MPI_SSH_FOLLOW": "true",
            "MPI_AGENT_STAYS": "true",
            "MPI_SSH_KEYS": str(folder / "keys"),
            "MPI_SSH_VOLUME": str(folder / "volume"),
            "MPI_AGENT_TOOLS": str(folder / "tools"),
            "MPI_AGENT_TERMINATION_LOG": str(folder / "none"),
        }

    def has(self, pair: Pair) -> None:
        """Have the Secret so, by new files as the kubelet makes them."""
        for name, content in pair.items():
            new = self.folder / "new"
            new.write_bytes(content)
            new.rename(self.folder / "keys" / name)

    def hook(self, monkeypatch: pytest.MonkeyPatch) -> int:
        with monkeypatch.context() as patch:
            for name, value in self.environ.items():
                patch.setenv(name, value)
            return cli.run()

    @property
    def identity(self) -> bytes:
        return (self.folder / "volume" / "run" / "identity").read_bytes()


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


@pytest.mark.parametrize("last", ["auth/config", "run/ssh_config", "run/known_hosts", "run/identity"])
def test_a_start_that_was_broken_off_is_taken_for_none(
    launcher: Launcher, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.environ["MPI_SSH_FOLLOW"] = "false"
    launcher.has(key_pair())
    obstacle = launcher.folder / "volume" / os.path.dirname(last) / f".{os.path.basename(last)}.part"
    obstacle.mkdir(parents=True)
    assert launcher.hook(monkeypatch) == 0
    assert not (launcher.folder / "volume" / last).exists()
    assert Files(launcher.environ, print).are_missing
    obstacle.rmdir()
    assert launcher.hook(monkeypatch) == 0
    assert not Files(launcher.environ, print).are_missing


def keys(launcher: Launcher) -> tuple[Files, list[str]]:
    """What stays beside a launcher, after the first preparation."""
    said = list[str]()
    files = Files(launcher.environ, said.append)
    files.prepare()
    return files, said


def test_a_public_key_that_alone_has_changed_is_told(launcher: Launcher) -> None:
    launcher.has(key_pair())
    looking, said = keys(launcher)
    looking.take_new_keys()
    launcher.has({"ssh-publickey": key_pair()["ssh-publickey"]})
    looking.take_new_keys()
    looking.take_new_keys()
    assert len(said) == 1
    assert "can't be used; the previous ones stay in use" in said[0]


def test_new_keys_come_back_where_the_user_removed_the_old_one(launcher: Launcher) -> None:
    launcher.has(key_pair())
    looking, said = keys(launcher)
    looking.take_new_keys()
    (launcher.folder / "volume" / "run" / "identity").unlink()
    pair = key_pair()
    launcher.has(pair)
    looking.take_new_keys()
    assert said == ["the keys in the Secret have changed: new connections use them"]
    assert launcher.identity == pair["ssh-privatekey"]


def test_a_rotation_that_failed_is_taken_up_by_the_next_process(launcher: Launcher) -> None:
    launcher.has(key_pair())
    looking, _ = keys(launcher)
    obstacle = launcher.folder / "volume" / "run" / "known_hosts"
    obstacle.unlink()
    obstacle.mkdir()
    launcher.has(key_pair())
    looking.take_new_keys()
    following = Files(launcher.environ, print)
    following.take_new_keys()
    obstacle.rmdir()
    following.take_new_keys()
    assert obstacle.is_file()


def test_a_folder_where_the_key_was_costs_no_descriptor(launcher: Launcher) -> None:
    launcher.has(key_pair())
    looking, _ = keys(launcher)
    path = launcher.folder / "volume" / "run" / "identity"
    path.unlink()
    path.mkdir()
    looking.take_new_keys()
    before = len(os.listdir("/proc/self/fd"))
    looking.take_new_keys()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_broken_secret_is_an_error(launcher: Launcher) -> None:
    launcher.has({"ssh-privatekey": b"broken", "ssh-publickey": b"broken"})
    with pytest.raises(DeliveryError) as failure:
        Files(launcher.environ, print).prepare()
    assert failure.value.exit_code == SSH_FILES


def test_ssh_is_prepared_where_nobody_is_waited_for(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A debugged job's workers run no sshd."""
    launcher.has(key_pair())
    hostfile = launcher.folder / "hostfile"
    hostfile.write_text("pi-worker-0.invalid slots=1\n")
    del launcher.environ["MPI_SSH_FOLLOW"], launcher.environ["MPI_AGENT_STAYS"]
    told = {"MPI_AGENT_TRANSPORT": "ssh", "MPI_AGENT_HOSTFILE": str(hostfile), "MPI_AGENT_WAIT": "false"}
    for name, value in {**launcher.environ, **told}.items():
        monkeypatch.setenv(name, value)
    assert command.main(args=[], standalone_mode=False) == READY
    assert (launcher.folder / "volume" / "run" / "ssh_config").exists()
    assert "not waiting for workers" in capfd.readouterr().err


def test_who_waits_for_the_containers_start_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_module, "LOGGED_AFTER_S", 0.0)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        (tmp_path / "sshd-start").touch()

    StartGate(str(tmp_path)).until_prepared(say)
    assert len(said) == 1
    assert "postStart" in said[0]
    StartGate(str(tmp_path)).until_prepared(say)
    assert len(said) == 1
