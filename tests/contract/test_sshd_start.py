"""sshd-start where sshd can't work: how the worker's container ends, and what it says; and where it can after all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ssh_pods import RUN, Pods, Spec, helpers, needs_pods, pods
from ssh_server import SSHD
from test_sshd_sessions import HERE, MPIUSER, PASSWD

from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["helpers", "pods"]
pytestmark = needs_pods

DISTRIBUTIONS = {
    'ID=ubuntu\nID_LIKE=debian\nHOME_URL="https://www.ubuntu.com/"\n': "by apt-get install openssh-server,",
    'NAME="Alpine Linux"\nID=alpine\n': "by apk add openssh-server,",
    'ID="rocky"\nID_LIKE="rhel centos fedora"\n': "by dnf install openssh-server,",
    'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n': "by zypper install openssh-server,",
    "ID=void\n": "by the package openssh-server, or what it is called there,",
}


# ---- whose keys, which user ----


def test_a_container_of_another_uid(pods: Pods) -> None:
    pod = pods.new(run_as=1000, variables={"MPI_SSH_MOUNT_PATH": "/home/mpiuser/.ssh"}, etc={"passwd": MPIUSER})
    assert pod.refusal() == (
        40,
        "this container runs as uid 1000, and the ssh keys are uid 0's: set securityContext.runAsUser: 1000 in the "
        "template, and they are prepared for that",
    )


def test_root_in_the_place_of_another_uid(pods: Pods) -> None:
    """It could read the keys, but sshd wants to have its folder from root."""
    code, line = pods.new(uid=1000, run_as=0).refusal()
    assert code == 40
    assert line.startswith("this container runs as uid 0, and the ssh keys are uid 1000's: set ")


def test_root_that_was_only_assumed_and_keys_that_others_may_read(pods: Pods) -> None:
    variables = {"MPI_SSH_USER": "assumed", "MPI_SSH_MOUNT_PATH": "/home/mpiuser/.ssh"}
    code, line = pods.new(variables=variables).refusal()
    assert code == 40
    assert line.endswith("name the uid in the template (securityContext.runAsUser), and it is prepared for that")


def test_a_mode_that_was_changed(pods: Pods) -> None:
    pod = pods.new()
    os.chmod(f"{pod.volume}/run/ssh_host_key", 0o660)
    assert pod.refusal() == (
        40,
        f"{RUN}/ssh_host_key has mode 0660, and sshd takes no key of its own that others may read: fsGroup has changed "
        "it; take that out of the template",
    )


def test_nothing_was_prepared(pods: Pods) -> None:
    pod = pods.new()
    os.unlink(f"{pod.volume}/run/ssh_host_key")
    code, line = pod.refusal()
    assert code == 40
    assert line.endswith("No such file or directory; has sshd-bootstrap run before, as uid 0?")


ACCOUNTS = {
    "none": (PASSWD, "uid 1000 has no entry in /etc/passwd"),
    "nologin": (
        MPIUSER.replace(":/bin/bash", ":/usr/sbin/nologin"),
        "in /etc/passwd, /usr/sbin/nologin, runs no commands",
    ),
    "no such shell": (MPIUSER.replace(":/bin/bash", ":/bin/zsh-5"), "in /etc/passwd, /bin/zsh-5, runs no commands"),
}


@pytest.mark.parametrize(("passwd", "expected"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_a_user_whom_sshd_would_not_let_in(passwd: str, expected: str, pods: Pods) -> None:
    code, line = pods.new(uid=1000, etc={"passwd": passwd}).refusal()
    assert code == 41
    assert expected in line
    assert "ssh.passwd: generated" in line


ANY_UID = {"MPI_SSH_PASSWD": "generated"}
LOW_PORT = {**ANY_UID, "MPI_SSH_USER": "unknown", "MPI_SSH_PORTS": "22"}
WORKING = {
    # In Rocky's and older Alpine's images; without PAM sshd accepts no key for such an account.
    "a locked password": Spec(etc={"shadow": "root:!locked::0:99999:7:::\n"}),
    "root with three capabilities": Spec(capabilities="-all,+setuid,+setgid,+sys_chroot"),
    "any uid without capabilities": Spec(uid=123456, variables=ANY_UID, capabilities="-all"),
    "a low port for root": Spec(variables=LOW_PORT),
    "a low port as containerd opens them": Spec(uid=123456, variables=LOW_PORT, first_port=0),
}


@pytest.mark.parametrize("spec", WORKING.values(), ids=WORKING)
def test_a_container_that_sshd_can_serve(spec: Spec, pods: Pods) -> None:
    pod = pods.new(spec)
    pod.serve()
    assert pod.ssh(HERE, "echo there").stdout == b"there\n", pod.said()


def test_root_without_capabilities(pods: Pods) -> None:
    assert pods.new(capabilities="-all,+setuid").refusal() == (
        43,
        "sshd as root needs capabilities that this container lacks: SETGID SYS_CHROOT; let it have them, or run it as "
        "another uid (securityContext.runAsUser: 1000)",
    )


def test_a_run_folder_that_anybody_may_write_to(pods: Pods) -> None:
    """As it is where an emptyDir is mounted there, for a root file system that is read-only."""
    pod = pods.new()
    pod.run("chmod", "1777", "/run")
    pod.serve()
    assert pod.ssh(HERE, "echo there").stdout == b"there\n", pod.said()


# ---- ports ----


def test_a_port_in_use(pods: Pods) -> None:
    pod = pods.new()
    pod.serve()
    code = pod.run(f"{RUN}/sshd-start", SSHD, "-D", "-e", "-f", f"{RUN}/sshd_config")
    assert code.returncode == 42
    expected = "sshd-start: port 2222 is in use already: name another (ssh.port); with hostNetwork it is the node's\n"
    assert code.stderr.decode() == expected


def test_a_port_for_root(pods: Pods) -> None:
    assert pods.new(uid=123456, variables=LOW_PORT, first_port=1024).refusal() == (
        42,
        "port 22 is for root or the capability NET_BIND_SERVICE, and this container runs as uid 123456: name one of "
        "1024 or above (ssh.port)",
    )


# ---- sshd ----


@pytest.mark.parametrize(("release", "expected"), DISTRIBUTIONS.items())
def test_no_sshd(release: str, expected: str, pods: Pods, tmp_path: Path) -> None:
    pod = pods.new(etc={"os-release": release}, mounts={"/usr/sbin": str(tmp_path)})
    code, line = pod.refusal()
    assert code == 127
    assert line.startswith("no sshd in this image (asked for: /usr/sbin/sshd): put it in ")
    assert expected in line


def test_an_sshd_that_is_elsewhere_is_found(pods: Pods) -> None:
    for given in ("/usr/bin/sshd", "sshd"):
        pod = pods.new()
        pod.serve(given, "-D", "-e", "-f", f"{RUN}/sshd_config")
        assert pod.ssh(HERE, "echo there").stdout == b"there\n", pod.said()


def test_a_file_that_is_no_program(pods: Pods) -> None:
    assert pods.new().refusal("/etc/passwd", "-D") == (126, "/etc/passwd can't be executed: Permission denied")


def test_what_sshd_itself_says_is_passed_on(pods: Pods, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("NoSuchThing yes\n")
    code, line = pods.new(mounts={"/etc/ssh/ssh_config.d": str(tmp_path)}).refusal(
        SSHD, "-D", "-e", "-f", "/etc/ssh/ssh_config.d/config"
    )
    assert code == 44
    assert line.startswith("sshd -t: /etc/ssh/ssh_config.d/config: line 1: Bad configuration option: NoSuchThing")


def test_a_volume_that_can_not_be_written_to(pods: Pods) -> None:
    pod = pods.unprepared(variables=ANY_UID, uid=123456)
    pod.prepare()
    os.chmod(f"{pod.volume}/run", 0o555)
    pod.open()
    code, line = pod.refusal()
    assert code == 45
    assert line == f"{RUN}/environment can't be written by uid 123456: Permission denied"


def test_the_wrong_call(pods: Pods) -> None:
    assert pods.new().run(f"{RUN}/sshd-start").returncode == 2


# ---- the end ----


def test_sshd_gets_the_signals_and_leaves_nothing(pods: Pods) -> None:
    pod = pods.new()
    process = pod.serve()
    # It listens before it takes the signal, and is written down behind that.
    pid = until(lambda: pod.run("cat", f"{RUN}/sshd.pid").stdout.decode().strip(), "sshd is written down")
    pod.run("kill", "-TERM", pid)
    assert process.wait(90) == 0, "plan takes this for a loss"
    assert "Received signal 15; terminating." in pod.said()
    # Of a zombie it is empty.
    until(lambda: b"sshd-start" not in pod.run("sh", "-c", "cat /proc/[0-9]*/cmdline").stdout, "its child has ended")
