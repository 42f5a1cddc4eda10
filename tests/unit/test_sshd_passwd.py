"""The generated /etc/passwd and /etc/group."""

from __future__ import annotations

import pytest

from sshd_bootstrap import configs

ROOT = "root:*:0:0:root:/root:/bin/sh\n"
OTHERS = (
    "sshd:*:100:65534:privilege separation:/run/sshd:/usr/sbin/nologin\n"
    "nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)


def test_any_uid_has_a_name_and_a_shell() -> None:
    expected = f"mpiuser:*:123456:0:the job's user:/tmp:/bin/sh\n{ROOT}{OTHERS}"
    assert configs.passwd(123456, 0, "/root/.ssh") == expected


def test_root_is_root() -> None:
    assert configs.passwd(0, 0, "/root/.ssh") == ROOT + OTHERS


HOMES = [
    ("/home/mpiuser/.ssh", 1000, "/home/mpiuser"),
    ("/root/.ssh", 1000, "/tmp"),  # it may not enter /root
    ("/etc/keys", 1000, "/tmp"),
    ("/.ssh", 1000, "/tmp"),
    ("/home/mpiuser/.ssh", 0, "/root"),
]


@pytest.mark.parametrize(("mount_path", "uid", "expected"), HOMES)
def test_home_is_where_the_keys_are(mount_path: str, uid: int, expected: str) -> None:
    assert configs.home(mount_path, uid) == expected


def test_groups() -> None:
    assert configs.group(0) == "root:*:0:\ntty:*:5:\nnogroup:*:65534:\n"
    assert configs.group(3000) == "mpiuser:*:3000:\nroot:*:0:\ntty:*:5:\nnogroup:*:65534:\n"
