"""The texts that sshd and ssh read, goldens in the folder sshd and what differs by setting; /etc/passwd and group."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from sshd_bootstrap import configs
from sshd_bootstrap.settings import JOB_HOSTS, HostKeys, Role, Settings

PLAIN = Settings(role=Role.WORKER, uid=0, gid=0)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMywiAPTMs7FIK"


def golden(name: str) -> list[str]:
    with open(os.path.join(os.path.dirname(__file__), "sshd", name), encoding="utf-8") as file:
        return file.read().splitlines()


def changed(before: list[str], after: str) -> tuple[list[str], list[str]]:
    """Return the lines that are gone, and those that came."""
    lines = after.splitlines()
    return [line for line in before if line not in lines], [line for line in lines if line not in before]


def test_goldens() -> None:
    assert configs.sshd_config(PLAIN).splitlines() == golden("sshd_config")
    assert configs.ssh_config(PLAIN, 2222).splitlines() == golden("ssh_config")
    assert configs.user_ssh_config(PLAIN, 2222).splitlines() == golden("config")


def test_port_and_paths() -> None:
    settings = replace(PLAIN, ports=(20123, 22), run_path="/x", mount_path="/home/me/.ssh")
    assert "Port 20123" in configs.sshd_config(settings).splitlines()
    for text in (configs.sshd_config(settings), configs.ssh_config(settings, 1), configs.user_ssh_config(settings, 1)):
        assert "/run/mpi-agents" not in text
        assert "/root" not in text


def test_an_image_with_its_own_configuration() -> None:
    settings = replace(PLAIN, has_own_config=True)
    expected = ["    Port 2222"], ["Include /etc/ssh/ssh_config"]
    gone, came = changed(golden("ssh_config"), configs.ssh_config(settings, None))
    assert (gone, [line for line in came if line]) == expected
    assert changed(golden("config"), configs.user_ssh_config(settings, None)) == (["    Port 2222"], [])


def test_host_keys_that_are_not_known_are_learnt_and_never_simply_taken() -> None:
    settings = replace(PLAIN, host_keys=HostKeys.IMAGE)
    gone, came = changed(golden("ssh_config"), configs.ssh_config(settings, 2222))
    assert (gone, came) == (["    StrictHostKeyChecking yes"], ["    StrictHostKeyChecking accept-new"])
    assert configs.known_hosts(settings, configs.ALL_HOSTS, KEY) == ""
    assert configs.known_hosts(settings, JOB_HOSTS, KEY) == ""


def test_hosts_at_ports_of_their_own() -> None:
    text = configs.ports_of({"job-worker-1.job.ns.svc": 2223, "10.0.0.1": 22, "fd00::1": 24})
    assert text == (
        "Host job-worker-1.job.ns.svc job-worker-1 job-worker-1.*\n    Port 2223\n\n"
        "Host 10.0.0.1\n    Port 22\n\n"
        "Host fd00::1\n    Port 24\n\n"
    )


def test_who_is_known_and_who_may_enter() -> None:
    assert configs.known_hosts(PLAIN, configs.ALL_HOSTS, KEY) == f"* {KEY}\n"
    assert configs.known_hosts(PLAIN, JOB_HOSTS, KEY) == f"*-worker-*,*-launcher* {KEY}\n"


# The generated /etc/passwd and /etc/group.

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
