"""The MPI_SSH_* variables."""

from __future__ import annotations

import pytest

from sshd_bootstrap.exits import USAGE, BootstrapError
from sshd_bootstrap.settings import HostKeys, Passwd, Role, Settings, User

ALL = {
    "MPI_SSH_ROLE": "launcher",
    "MPI_SSH_KEYS": "/secret/",
    "MPI_SSH_VOLUME": "/volume",
    "MPI_SSH_MOUNT_PATH": "/home/me/.ssh",
    "MPI_SSH_RUN_PATH": "/run/x",
    "MPI_SSH_PORTS": " 22  2222 ",
    "MPI_SSH_HOSTS": "vc-node-* vc-login*",
    "MPI_SSH_USER": "unknown",
    "MPI_SSH_PASSWD": "generated",
    "MPI_SSH_HOST_KEYS": "image",
    "MPI_SSH_OWN_CONFIG": "true",
    "MPI_AGENT_TOOLS": "/tools",
}


def test_all_of_them() -> None:
    settings = Settings.load(ALL)
    assert settings.role is Role.LAUNCHER
    assert (settings.keys, settings.volume, settings.tools) == ("/secret", "/volume", "/tools")
    assert (settings.mount_path, settings.run_path) == ("/home/me/.ssh", "/run/x")
    assert (settings.ports, settings.port) == ((22, 2222), 22)
    assert settings.job_hosts == ("vc-node-*", "vc-login*")
    assert (settings.user, settings.passwd, settings.host_keys) == (User.UNKNOWN, Passwd.GENERATED, HostKeys.IMAGE)
    assert settings.has_own_config


@pytest.mark.parametrize("environ", [{}, dict.fromkeys(ALL, "")])
def test_none_of_them(environ: dict[str, str]) -> None:
    settings = Settings.load(environ)
    assert settings.role is Role.WORKER
    assert (settings.keys, settings.volume) == ("/etc/mpi-ssh", "/mpi-ssh")
    assert (settings.mount_path, settings.run_path) == ("/root/.ssh", "/run/mpi-agents/ssh")
    assert settings.ports == (2222,)
    assert settings.job_hosts == ("*-worker-*", "*-launcher*")
    assert (settings.user, settings.passwd, settings.host_keys) == (User.NAMED, Passwd.IMAGE, HostKeys.JOB)
    assert not settings.has_own_config


WRONG = {
    ("MPI_SSH_ROLE", "boss"): "MPI_SSH_ROLE is 'boss', and must be launcher or worker",
    ("MPI_SSH_USER", "Root"): "MPI_SSH_USER is 'Root', and must be named or assumed or unknown",
    ("MPI_SSH_OWN_CONFIG", "1"): "MPI_SSH_OWN_CONFIG is '1', and must be true or false",
    ("MPI_SSH_PORTS", "22,2222"): "MPI_SSH_PORTS is '22,2222': give ports, 1 to 65535, with spaces between",
    ("MPI_SSH_PORTS", "0"): "MPI_SSH_PORTS is '0': give ports, 1 to 65535, with spaces between",
    ("MPI_SSH_PORTS", "65536"): "MPI_SSH_PORTS is '65536': give ports, 1 to 65535, with spaces between",
    ("MPI_SSH_HOSTS", "a\nb!"): "MPI_SSH_HOSTS is 'a\\nb!': give host names, * for any text, with spaces between",
    ("MPI_SSH_PORTS", "²"): "MPI_SSH_PORTS is '²': give ports, 1 to 65535, with spaces between",
    (
        "MPI_SSH_MOUNT_PATH",
        "~/.ssh",
    ): "MPI_SSH_MOUNT_PATH is '~/.ssh': give an absolute path without quotes, %, $ and \\",
    ("MPI_SSH_MOUNT_PATH", '/a"b'): "MPI_SSH_MOUNT_PATH is '/a\"b': give an absolute path without quotes, %, $ and \\",
    ("MPI_SSH_RUN_PATH", "/a\nb"): "MPI_SSH_RUN_PATH is '/a\\nb': give an absolute path without quotes, %, $ and \\",
    ("MPI_SSH_RUN_PATH", "/%u"): "MPI_SSH_RUN_PATH is '/%u': give an absolute path without quotes, %, $ and \\",
}


@pytest.mark.parametrize(("variable", "expected"), WRONG.items())
def test_what_can_not_be_understood(variable: tuple[str, str], expected: str) -> None:
    with pytest.raises(BootstrapError) as failed:
        Settings.load(dict([variable]))
    assert (failed.value.exit_code, failed.value.message) == (USAGE, expected)


OWNERS = [
    ("named", 0, "/root/.ssh", True),
    ("named", 1000, "/home/me/.ssh", True),
    ("assumed", 0, "/root/.ssh", True),
    ("assumed", 0, "/home/me/.ssh", False),  # an image whose user is another, as kubeflow's
    ("unknown", 1000650000, "/root/.ssh", True),  # what a platform assigns, it assigns to the whole pod
    ("unknown", 65532, "/root/.ssh", False),  # our image's own user
]


@pytest.mark.parametrize(("user", "uid", "mount_path", "expected"), OWNERS)
def test_whose_the_files_are(*, user: str, uid: int, mount_path: str, expected: bool) -> None:
    assert Settings(role=Role.WORKER, user=User(user), uid=uid, mount_path=mount_path).is_owner is expected
