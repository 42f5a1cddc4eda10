"""Where no hub was set up, the first client starts one for its container: the real client with the real hub."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import USER, WORKERS, environment
from scripted_hub import FIXTURES, SANITIZERS

from rshagent.native import client_build
from tests.privileges import NO_CAPABILITIES
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agents.playground.cluster import Cluster

DIRECT = os.path.join(os.path.dirname(sys.executable), "rshagent-direct")
PATIENCE_S = 30
build, program, _, _ = FIXTURES

pytestmark = pytest.mark.skipif(os.path.exists("/run/mpi-agents"), reason="a hub is set up on this machine")


class Container:
    """A launcher's container, by its folder of tools and its environment."""

    def __init__(self, cluster: Cluster, program: Path, folder: Path) -> None:
        self.folder = folder / "kube"
        self.folder.mkdir()
        shutil.copy(program, self.folder)
        self.direct = self.folder / "rshagent-direct"
        self.direct.symlink_to(DIRECT)
        self.environ = {**environment(cluster, folder, WORKERS), **SANITIZERS}
        del self.environ["MPI_AGENT_SOCKET"]
        self.client = [*NO_CAPABILITIES, os.fspath(self.folder / "rshagent"), "-n"]
        self.hub = self.folder / "hub"

    def start(self, *words: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*self.client, *words], env=self.environ, stdout=pipe, stderr=pipe, pass_fds=pass_fds)

    def run(self, *words: str) -> tuple[int, bytes, bytes]:
        return ended(self.start(*words))

    def hubs(self) -> list[int]:
        """Process ids of the hubs that clients of this container have started."""
        wanted = f"MPI_AGENT_SERVE={self.hub}/hub.sock".encode()
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def kill_hub(self) -> None:
        killed = set(self.hubs())
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        until(lambda: killed.isdisjoint(self.hubs()), "the hub is gone")  # a client may have started the next one

    def times_served(self) -> int:
        return (self.hub / "log").read_text().count(" serving ")


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


@pytest.fixture
def container(cluster: Cluster, program: Path, tmp_path: Path) -> Iterator[Container]:
    container = Container(cluster, program, tmp_path)
    yield container
    container.kill_hub()


def test_many_clients_at_once_start_one_hub(container: Container) -> None:
    clients = [container.start(WORKERS[number % 2], f"echo {number}; exit 5") for number in range(32)]
    assert [ended(one) for one in clients] == [(5, f"{number}\n".encode(), b"") for number in range(32)]
    assert container.times_served() == 1
    assert len(container.hubs()) == 1


def test_the_next_client_starts_another_when_the_hub_was_killed(container: Container) -> None:
    assert container.run("worker-0", "exit 5") == (5, b"", b"")
    container.kill_hub()
    assert container.run("worker-0", "exit 6") == (6, b"", b"")
    assert container.times_served() == 2


def test_sessions_go_on_when_the_hub_was_killed(cluster: Cluster, container: Container) -> None:
    sessions = [container.start(worker, "until [ -e go ]; do sleep 0.05; done; rm go; exit 7") for worker in WORKERS]
    cluster.until(lambda stats: stats["running"] >= 2)
    container.kill_hub()
    until(lambda: container.times_served() == 2, "another hub serves")
    for worker in WORKERS:
        with open(cluster.pod_folder(worker) + "/home/go", "w"):
            pass
    assert [ended(one) for one in sessions] == [(7, b"", b"")] * 2
    assert container.times_served() == 2


def test_the_hub_is_nobodys_child_and_holds_nothing_of_the_launchers(container: Container) -> None:
    reader, writer = os.pipe()
    client = container.start("worker-0", "exit 5", pass_fds=(writer,))
    os.close(writer)
    assert ended(client) == (5, b"", b"")
    with open(reader, "rb") as pipe:
        assert pipe.read() == b""  # its end: the hub has not got the other one
    (hub,) = container.hubs()
    assert os.getsid(hub) == os.getpgid(hub) == hub
    os.kill(hub, signal.SIGHUP)
    assert container.run("worker-0", "exit 6") == (6, b"", b"")
    assert container.hubs() == [hub]
    assert (container.folder / "hub").stat().st_mode & 0o777 == 0o700
    assert (container.folder / "hub" / "hub.sock").stat().st_mode & 0o777 == 0o600


def a_file(hub: Path) -> None:
    hub.touch()


def read_only(hub: Path) -> None:
    hub.parent.chmod(0o555)


def another_users(hub: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's folder")
    hub.mkdir()
    os.chown(hub, 12345, 12345)


def writable_by_all(hub: Path) -> None:
    hub.mkdir()
    hub.chmod(0o777)


# In a mount namespace of its own, as a container has it; `$@` is the client. Says what it ran by, and where the hub is.
IN_A_CONTAINER = """
name=.mpi-agents-$(id -u)-$(stat -Lc %i /proc/self/ns/mnt)
rm -rf /tmp/$name /dev/shm/$name  # an earlier namespace had the same number, and its test was interrupted
for place in $SPOILED; do
    if [ $place = mode ]; then mount -t tmpfs -o mode=0777 none /dev/shm; else touch $place/$name; fi
done
"$@" worker-0 'exit 5' && exit
echo $? $name
"$@" worker-0 'exit 6'
echo $?
"""


def in_a_container(container: Container, spoiled: str) -> tuple[list[str], bytes]:
    """Run two clients; return what the script says, and their stderr."""
    command = ["unshare", *USER, "--mount", "sh", "-c", IN_A_CONTAINER, "sh", *container.client]
    done = subprocess.run(
        command, env={**container.environ, "SPOILED": spoiled}, capture_output=True, timeout=PATIENCE_S, check=True
    )
    return done.stdout.decode().split(), done.stderr


@pytest.mark.parametrize(
    ("spoil", "spoiled", "place"),
    [
        (a_file, "", "/tmp"),
        (read_only, "", "/tmp"),
        (another_users, "", "/tmp"),
        (writable_by_all, "", "/tmp"),
        (a_file, "/tmp", "/dev/shm"),
    ],
)
def test_where_there_can_be_no_folder_of_ours_beside_the_client_the_hub_is_elsewhere(
    container: Container, spoil: Callable[[Path], None], spoiled: str, place: str
) -> None:
    spoil(container.folder / "hub")
    (first, name, second), said = in_a_container(container, spoiled)
    container.hub = Path(place, name)
    assert (first, second, said) == ("5", "6", b"")
    assert len(container.hubs()) == 1
    assert container.times_served() == 1
    assert container.hub.stat().st_mode & 0o777 == 0o700
    assert (container.hub / "hub.sock").stat().st_mode & 0o777 == 0o600
    container.kill_hub()
    shutil.rmtree(container.hub)
    if spoiled:
        Path(spoiled, name).unlink()
    container.folder.chmod(0o755)


@pytest.mark.parametrize("spoiled", ["/tmp /dev/shm", "/tmp mode"])
def test_where_no_place_is_safe_it_is_one_line(container: Container, spoiled: str) -> None:
    (container.folder / "hub").touch()
    (first, name, second), said = in_a_container(container, spoiled)
    expected = (
        f"rshagent: no hub can be started: neither {container.folder}/hub nor a folder in /tmp or /dev/shm can be made "
        "that only this user may write to; mount an emptyDir volume with medium Memory at /dev/shm\n"
    )
    assert (first, second, said.decode()) == ("255", "255", 2 * expected)
    for place in ("/tmp", "/dev/shm"):
        Path(place, name).unlink(missing_ok=True)


def test_each_namespace_has_a_hub_of_its_own(container: Container) -> None:
    assert container.run("worker-0", "exit 5") == (5, b"", b"")
    container.environ["MPI_AGENT_NAMESPACE"] = "other"
    code, _, said = container.run("worker-0", "exit 6")
    assert (code, b"there is no such pod" in said) == (255, True)
    container.hub = container.folder / "hub-other"
    assert container.times_served() == 1
    container.kill_hub()
    container.hub = container.folder / "hub"


def test_a_call_without_a_client_says_who_calls_it() -> None:
    done = subprocess.run([DIRECT, "worker-0", "true"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "this is called by the client, rshagent" in done.stderr


# ---- a hub that can't start ----


def broken(container: Container, content: bytes) -> None:
    container.direct.unlink()
    container.direct.write_bytes(content)
    container.direct.chmod(0o755)


TOLD = "rshagent: the hub at {}/hub/hub.sock did not start: {}; see the file log beside it\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"#!/bin/sh\necho noise\necho no python here >&2\nexit 3\n", "no python here"),
        (b"#!/bin/sh\nexit 3\n", "it ended without a word"),
        (b"\x7fELF and nothing else", "{}/rshagent-direct can't be run: Exec format error"),
        (b"#!/no/such/shell\n", "{}/rshagent-direct can't be run: No such file or directory"),
    ],
    ids=["says-why", "silent", "no-program", "no-interpreter"],
)
def test_a_hub_that_does_not_start_is_one_line(container: Container, content: bytes, reason: str) -> None:
    broken(container, content)
    expected = TOLD.format(container.folder, reason.format(container.folder)).encode()
    for _ in range(2):  # each says what it has seen itself
        assert container.run("worker-0", "true") == (255, b"", expected)


def test_clients_that_wait_for_a_hub_that_does_not_start_all_say_so(container: Container) -> None:
    broken(container, b'#!/bin/sh\nuntil [ -e "${MPI_AGENT_SERVE%/*}/fail" ]; do sleep 0.05; done\necho sorry\n')
    clients = [container.start("worker-0", "true") for _ in range(8)]
    until(container.hubs, "a start is under way")
    (container.folder / "hub" / "fail").touch()
    expected = TOLD.format(container.folder, "sorry").encode()
    assert [ended(one) for one in clients] == [(255, b"", expected)] * 8


NO_FORK = """
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
pid_t fork(void);
pid_t fork_or_not(void);
pid_t fork_or_not(void) {
    if (!getenv("NO_FORK")) return fork();
    errno = EAGAIN;
    return -1;
}
"""


def test_a_hub_that_no_process_can_be_made_for_is_one_line(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "cc -Dfork=fork_or_not")
    (tmp_path / "no_fork.c").write_text("#undef fork\n" + NO_FORK)
    client_build.build(str(tmp_path / "rshagent"), sources=[*client_build.CLIENT, str(tmp_path / "no_fork.c")])
    container = Container(cluster, tmp_path / "rshagent", tmp_path)
    container.environ["NO_FORK"] = "yes"
    expected = TOLD.format(container.folder, "Resource temporarily unavailable").encode()
    for _ in range(2):  # each says what it has seen itself
        assert container.run("worker-0", "true") == (255, b"", expected)
    assert (container.folder / "hub" / "lock").stat().st_size == 0, "no start is under way"
    del container.environ["NO_FORK"]
    assert container.run("worker-0", "exit 5") == (5, b"", b"")
    container.kill_hub()
