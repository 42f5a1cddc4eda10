"""Which files there are, whose, with which modes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sshd_bootstrap import layout
from sshd_bootstrap.keys import Pair
from sshd_bootstrap.settings import HostKeys, Passwd, Role, Settings, User

PAIR = Pair(b"PRIVATE\n", "ssh-ed25519 PUBLIC")
WORKER = Settings(role=Role.WORKER, uid=0, gid=0)
KUBEFLOWS = replace(WORKER, user=User.ASSUMED, mount_path="/home/mpiuser/.ssh")
IMAGES_OWN = replace(WORKER, user=User.UNKNOWN, uid=65532)

LAUNCHERS = {
    "auth/id_rsa": 0o600,
    "auth/id_rsa.pub": 0o644,
    "auth/authorized_keys": 0o644,
    "auth/known_hosts": 0o644,
    "run/identity": 0o600,
    "run/known_hosts": 0o644,
    "run/ssh_config": 0o644,
    "auth/config": 0o644,
}
WORKERS = {
    **LAUNCHERS,
    "run/sshd-start": 0o755,
    "run/sshd_config": 0o644,
    "run/authorized_keys": 0o644,
    "run/ssh_host_key": 0o600,
}


def modes(settings: Settings) -> dict[str, int]:
    return {file.path: file.mode for file in layout.files(settings, PAIR, b"program")}


def test_files_of_the_user_are_private() -> None:
    assert modes(WORKER) == WORKERS
    assert modes(replace(WORKER, role=Role.LAUNCHER)) == LAUNCHERS
    assert dict(layout.folders(WORKER)) == {"auth": 0o700, "run": 0o755, "empty": 0o755}


@pytest.mark.parametrize("settings", [KUBEFLOWS, IMAGES_OWN])
def test_files_of_another_can_be_read_by_the_user(settings: Settings) -> None:
    """ssh and sshd refuse them only where they belong to the process's own uid."""
    expected = {path: 0o644 if mode == 0o600 else mode for path, mode in WORKERS.items()}
    if settings is IMAGES_OWN:
        del expected["auth/config"]  # of which ssh would say: bad owner
    assert modes(settings) == expected
    assert dict(layout.folders(settings)) == {"auth": 0o755, "run": 0o1777, "empty": 0o755}


def test_the_host_key_is_last() -> None:
    """By it sshd-start knows that all is there."""
    assert layout.files(WORKER, PAIR, b"")[-1].path == "run/ssh_host_key"


def test_keys_are_where_they_belong_and_nowhere_else() -> None:
    found = {file.path for file in layout.files(WORKER, PAIR, b"") if b"PRIVATE" in file.content}
    assert found == {"auth/id_rsa", "run/identity", "run/ssh_host_key"}
    assert "PRIVATE" not in repr(layout.files(WORKER, PAIR, b""))


def test_passwd_is_there_if_it_is_generated() -> None:
    added = modes(replace(WORKER, passwd=Passwd.GENERATED)).items() - modes(WORKER).items()
    assert added == {("passwd", 0o644), ("group", 0o644)}


def test_what_ssh_has_learnt_stays() -> None:
    kept = [file.path for file in layout.files(replace(WORKER, host_keys=HostKeys.IMAGE), PAIR, b"") if file.is_kept]
    ports = ["run/ssh_config", "auth/config"]
    assert kept == ["run/known_hosts", *ports]
    assert [file.path for file in layout.files(WORKER, PAIR, b"") if file.is_kept] == ports


def test_ports_that_were_found() -> None:
    own = replace(WORKER, has_own_config=True, ports=(22, 2222))
    ports = {"a": 2222, "b": 2222, "c": 22}
    text = layout.ssh_configs(own, ports)[0].content.decode()
    assert text.startswith("Host c c c.*\n    Port 22\n\n# ssh from pod to pod")
    assert "Host *\n    Port 2222\n" in text
    assert "Port" not in layout.ssh_configs(own, {})[0].content.decode()
    assert "Host *\n    Port 22\n" in layout.ssh_configs(replace(own, has_own_config=False), {})[0].content.decode()
