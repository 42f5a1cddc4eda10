"""ssh into a worker: the real sshd and ssh, by what sshd_bootstrap wrote, as the users that jobs have."""

from __future__ import annotations

import socket
import subprocess

import pytest
from ssh_pods import LAUNCHED_BY, PATIENCE_S, Pods, Spec, helpers, needs_pods, pods

from agents.common.ssh_probe import Outcome, classify
from agents.job.model import KeyType
from tests.keys import write_keys

__all__ = ["helpers", "pods"]
pytestmark = needs_pods

HERE = "127.0.0.1"
PASSWD = "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
MPIUSER = f"{PASSWD}mpiuser:x:1000:1000::/home/mpiuser:/bin/bash\n"
USERS = {
    "root": Spec(),
    "uid 1000 of the image": Spec(
        uid=1000, variables={"MPI_SSH_MOUNT_PATH": "/home/mpiuser/.ssh"}, etc={"passwd": MPIUSER}
    ),
    "any uid": Spec(uid=123456, variables={"MPI_SSH_PASSWD": "generated"}),
    "uid that the platform assigns": Spec(
        uid=1000650000, variables={"MPI_SSH_USER": "unknown", "MPI_SSH_PASSWD": "generated"}
    ),
    "uid that only the image names": Spec(
        uid=65532,
        run_as=1000,
        variables={"MPI_SSH_USER": "unknown", "MPI_SSH_MOUNT_PATH": "/home/mpiuser/.ssh"},
        etc={"passwd": MPIUSER},
    ),
    "root assumed, and another in fact": Spec(
        run_as=1000,
        variables={"MPI_SSH_USER": "assumed", "MPI_SSH_MOUNT_PATH": "/home/mpiuser/.ssh"},
        etc={"passwd": MPIUSER},
    ),
}


@pytest.mark.parametrize("spec", USERS.values(), ids=USERS)
def test_a_command_runs_as_in_the_container(spec: Spec, pods: Pods) -> None:
    strange = {
        "A": "two\nlines",
        "B": "'single' \"double\" `x` $HOME \\",
        "C": "",
        "D": " ",
        "LD_LIBRARY_PATH": "/opt/l",
    }
    pod = pods.new(spec, environment={**strange, "PATH": "/opt/mpi/bin:/usr/bin:/bin", "HOME": "/nowhere"})
    pod.serve()
    done = pod.ssh(HERE, "cat; env -0; id -u; exit 7", stdin=b"in \0 and out\n")
    assert done.returncode == 7, done.stderr
    assert done.stderr == b""
    said, _, rest = done.stdout.partition(b"\n")
    assert said == b"in \0 and out"
    *variables, uid = rest.decode().split("\0")
    assert int(uid) == (spec.uid if spec.run_as is None else spec.run_as)
    found = dict(variable.split("=", 1) for variable in variables)
    assert strange.items() <= found.items()
    assert found["PATH"] == "/opt/mpi/bin:/usr/bin:/bin"
    assert found["HOME"] != "/nowhere"
    assert found["SSH_CONNECTION"].startswith(HERE)
    assert "SSH_ORIGINAL_COMMAND" not in found


@pytest.mark.parametrize("key_type", KeyType)
def test_every_type_of_key(key_type: KeyType, pods: Pods) -> None:
    pod = pods.unprepared()
    write_keys(pod.keys, key_type)
    pod.prepare()
    pod.open()
    pod.serve()
    assert pod.ssh(HERE, "echo", "there").stdout == b"there\n"


def test_the_program_as_it_is_shipped(helpers: dict[str, str]) -> None:
    pods = Pods(helpers["shipped"])
    try:
        pod = pods.new(environment={"A": "b"})
        pod.serve()
        assert pod.ssh(HERE, "echo $A").stdout == b"b\n"
    finally:
        pods.close()


def test_many_at_once(pods: Pods) -> None:
    pod = pods.new()
    pod.serve()
    words = pod.words(*LAUNCHED_BY, HERE, "exit 5")
    calls = [subprocess.Popen(words, stdin=subprocess.DEVNULL) for _ in range(32)]
    assert [call.wait(PATIENCE_S) for call in calls] == [5] * 32


def test_the_users_own_configuration_of_ssh_serves_the_jobs_hosts_alone(pods: Pods) -> None:
    hosts = "127.0.0.1 job-worker-0.job.ns.svc job-worker-0\n127.0.0.2 elsewhere\n"
    pod = pods.new(etc={"hosts": hosts})
    pod.serve()
    for name in ("job-worker-0", "job-worker-0.job.ns.svc"):
        assert pod.run("ssh", name, "echo there").stdout == b"there\n"
    told = pod.run("ssh", "-G", "elsewhere").stdout.decode().splitlines()
    assert "port 22" in told
    assert "batchmode no" in told


@pytest.mark.parametrize(("name", "shell"), [("root", b"-bash\n"), ("any uid", b"-sh\n")])
def test_a_terminal_and_a_login_shell(name: str, shell: bytes, pods: Pods) -> None:
    pod = pods.new(USERS[name])
    pod.serve()
    assert pod.ssh("-tt", HERE, "tty").stdout.startswith(b"/dev/pts/"), pod.said()
    done = pod.ssh(HERE, stdin=b"echo $0; exit 3\n")
    assert done.stdout == shell
    assert done.returncode == 3


def look_for_banner() -> None:
    """As delivery and the worker agent do it: who names himself before he leaves is no error."""
    with socket.create_connection((HERE, 2222), PATIENCE_S) as connection:
        result = classify(connection.recv(4096), 2222, is_over=False)
        assert result is not None
        assert result.outcome is Outcome.READY
        connection.sendall(b"SSH-2.0-test\r\n")


def test_looking_for_a_banner_is_no_error_in_the_log(pods: Pods) -> None:
    pod = pods.new()
    process = pod.serve()
    pod.within_network(look_for_banner)
    pod.wait_for("^Connection (closed|reset) by .*preauth", process)  # reset, where sshd was quick
    assert "kex_exchange_identification" not in pod.said()


# ---- what is refused ----


def test_another_host_key_is_refused(pods: Pods) -> None:
    pod, other = pods.new(), pods.new()
    pod.serve()
    with (
        open(f"{other.volume}/run/known_hosts", "rb") as source,
        open(f"{pod.volume}/run/known_hosts", "wb") as file,
    ):
        file.write(source.read())
    refused = pod.ssh(HERE, "echo there")
    assert refused.returncode == 255
    assert b"Host key verification failed" in refused.stderr
    assert refused.stdout == b""


def test_another_key_and_a_password_are_refused(pods: Pods) -> None:
    pod, other = pods.new(), pods.new()
    pod.serve()
    assert pod.ssh_with(f"{pod.volume}/run/identity").stdout == b"there\n"
    methods = "-oPreferredAuthentications=password,keyboard-interactive,hostbased"
    for refused in (
        pod.ssh_with(f"{other.volume}/run/identity"),
        pod.ssh("-oBatchMode=no", methods, HERE, "echo there"),
    ):
        assert (refused.returncode, refused.stdout) == (255, b"")
        assert b"Permission denied (publickey)" in refused.stderr


def test_forwarding_is_refused(pods: Pods) -> None:
    pod = pods.new()
    pod.serve()
    inside = pod.ssh("-W", "127.0.0.1:2222", HERE)
    back = pod.ssh("-oExitOnForwardFailure=yes", "-R", "9999:127.0.0.1:2222", HERE, "true")
    socket = pod.ssh("-oExitOnForwardFailure=yes", "-R", "/tmp/x.sock:127.0.0.1:2222", HERE, "true")
    assert [inside.returncode, back.returncode, socket.returncode] == [255] * 3
    assert b"forwarding failed" in inside.stderr
