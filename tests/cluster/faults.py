"""Faults as the node has them: its daemons end, processes of a test's pods are killed, a container runs out of memory.

A cluster that is somebody's own has daemons that are none of a test's business, so there all of this is skipped.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import socket
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster import kube
from tests.cluster import pods as of
from tests.cluster.kube import DEADLINE_S, WaitError
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.pki import NODE, service_account_key
from tests.cluster.local.places import Places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.jobs import Job
    from tests.cluster.kube import Namespace
    from tests.cluster.local.daemons import Daemon
    from tests.cluster.running import Running

_READY_S = 180.0
_KUBELET = "http://127.0.0.1:10248/healthz"
_KUBELET_PORT = 10250  # for logs and execs; it may come behind the other
_LOOK_S = 0.02  # a launch's moments are short


@dataclass(frozen=True)
class Container:
    """One life of a container, as the node sees it: it needs no API server."""

    identity: str

    def processes(self) -> dict[int, str]:
        """Names by process id, those of execs too."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.identity in (folder / "cgroup").read_text():
                        found[int(folder.name)] = (folder / "comm").read_text().rstrip("\n")
        return found

    def count(self, name: str) -> int:
        """How many of its processes have this name."""
        return [*self.processes().values()].count(name)

    @property
    def first(self) -> int:
        """The process id of the container's process 1."""
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if _ns_pids(pid)[1:] == ["1"]:
                    return pid
        raise WaitError(f"no process 1 in container {self.identity}")

    @property
    def of_the_job(self) -> set[int]:
        """Its processes but the two that an example's worker is made of: a shell, and the sleep that it waits for."""
        first = self.first
        own = ("sleep", "3600")
        return {pid for pid in self.processes() if pid != first and _words(pid) not in (own, ())}

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send its process 1 a signal. By KILL all others end with it."""
        os.kill(self.first, number)

    def touch(self, path: str) -> None:
        """Make a file in it."""
        Path(f"/proc/{self.first}/root{path}").touch()

    def read(self, path: str) -> str:
        """The text of a file in it."""
        return Path(f"/proc/{self.first}/root{path}").read_text()


def _ns_pids(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("NSpid:"))


def _words(pid: int) -> tuple[str, ...]:
    """A process's command line; () for one that has ended."""
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1])
    except OSError:
        return ()


def container(namespace: Namespace, pod: str, name: str | None = None) -> Container:
    """A pod's container as it runs now, the first if none is named."""
    found = namespace.get("Pod", pod)
    statuses = [one for one in of.statuses(found) if one["name"] == (name or found["spec"]["containers"][0]["name"])]
    return Container(statuses[0]["containerID"].rpartition("/")[2])


class Node:
    """The node that everything runs on."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.api_server: Daemon = cluster.daemons["kube-apiserver"]
        self.kubelet: Daemon = cluster.daemons["kubelet"]
        self._has_lost_api_server = False

    def kubectl(self, *words: str) -> str:
        """Run kubectl as the administrator. Raises WaitError where it fails."""
        said = self.cluster.kubectl(*words)
        if said is None:
            raise WaitError(f"kubectl {' '.join(words)} failed")
        return said

    def wait_ready(self) -> None:
        """Wait until the node is Ready. Raises WaitError."""
        self.kubectl("wait", "--for=condition=Ready", f"node/{NODE}", f"--timeout={_READY_S:.0f}s")

    def restart_api_server(self) -> None:
        """Kill the API server, and start it again at once."""
        self.api_server.stop(signal.SIGKILL)
        self.start_api_server()

    def start_api_server(self) -> None:
        """Start it, and restart the controllers: after a few losses of it they wait for half a minute.

        So does the kubelet; as streams pass through that, it is left alone until the test has ended.
        """
        self._has_lost_api_server = True
        self.cluster.start_api_server()
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.cluster.daemons[name].stop(signal.SIGKILL)
            self.cluster.daemons[name].start()

    def restart_kubelet(self) -> None:
        """Kill the kubelet, start it again, and wait until it answers."""
        self.kubelet.stop(signal.SIGKILL)
        self.kubelet.start()
        until("the kubelet answers", lambda: _is_healthy(_KUBELET) and _listens(_KUBELET_PORT), _READY_S)
        self.wait_ready()

    @contextlib.contextmanager
    def another_service_account_key(self) -> Iterator[None]:
        """Have the API server and the controllers use another key, so that no earlier token is worth anything.

        The kubelet restarts, too: else it brings new tokens when the old ones are about to expire.
        """
        files = [self.cluster.places.pki / name for name in ("sa.key", "sa.pub")]
        kept = [file.read_bytes() for file in files]
        service_account_key(self.cluster.places.pki)
        try:
            self._use_keys()
            yield
        finally:
            for file, content in zip(files, kept, strict=True):
                file.write_bytes(content)
            self._use_keys()

    def _use_keys(self) -> None:
        self.restart_api_server()
        self.restart_kubelet()

    def restore(self) -> None:
        """Have all daemons run, and the node Ready and schedulable."""
        for daemon in self.cluster.daemons.values():
            daemon.send(signal.SIGCONT)
            daemon.start()
        self.cluster.start_api_server()
        if self._has_lost_api_server:
            self.restart_kubelet()
        self.kubectl("uncordon", NODE)
        self.wait_ready()


@pytest.fixture(scope="session")
def local() -> LocalCluster:
    """The cluster, if it is the tests' own, on this machine: processes of a test's own pods can be seen and killed."""
    places = Places.of()
    if not places.is_cluster_of(os.environ["KUBECONFIG"]):
        pytest.skip("KUBECONFIG names a cluster whose nodes are not a test's: run this by `make test-cluster`")
    return LocalCluster(places)


@pytest.fixture
def node(local: LocalCluster) -> Iterator[Node]:
    """The node, which is as it was when the test ends. Nothing else runs meanwhile."""
    node = Node(local)
    yield node
    node.restore()


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


until = functools.partial(kube.until, pause_s=_LOOK_S)
"""Look at the node again and again until a check says yes. Raises WaitError."""


def words_of_ours(output: str) -> list[str]:
    """What agents have said, but that of a lost stream a daemon's output may be missing: its ranks write elsewhere."""
    said = [line for line in output.splitlines() if "rshagent" in line]
    return [line for line in said if not line.endswith("; it ended with 0")]


def of_the_command(errors: str) -> str:
    """Leave out an agent's line on a lost stream: an undisturbed command may have one, if its exit code is not 0.

    Now and then an API server reports success without having read the exit code (docs/faults.md).
    The agent doesn't take that for true. It says so, and asks the worker.
    """
    return re.sub(r"^rshagent: \S+: the stream was lost, so .*\n", "", errors, flags=re.MULTILINE)


class Ranks:
    """A running job whose ranks wait for a word before they compute pi; then rank 0 ends with a code of its own."""

    _SCRIPT = (
        "echo waiting; until [ -e /tmp/go ]; do sleep 0.1; done; "
        'pi || exit 99; case $(hostname) in *-0) exit "$0";; esac'
    )
    # With a process in each worker that neither daemon nor rank ends, as programs leave them that start services.
    _LASTING = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & "

    def __init__(self, running: Running) -> None:
        """Wait until all ranks have started."""
        self.running = running
        self.find()

    @classmethod
    def job(cls, job: Job, code: int, *, lasting: bool = False) -> Job:
        """Have a job's ranks do so."""
        return job.run("/bin/sh", "-c", cls._LASTING * lasting + cls._SCRIPT, str(code))

    def find(self) -> None:
        """Wait until all ranks have started, and look where."""
        names = self.running.job.workers
        self.running.until_output("waiting", len(names))
        self.workers = [container(self.running.namespace, name) for name in names]

    def go_on(self) -> None:
        """Let them compute; no API server is asked."""
        for worker in self.workers:
            worker.touch("/tmp/go")

    def until_ended(self, within_s: float = DEADLINE_S) -> None:
        """Wait until no rank is left; no API server is asked."""
        until("no rank is left", lambda: not any(worker.count("pi") for worker in self.workers), within_s)

    def assert_ended_undisturbed(self, within_s: float) -> None:
        """They end with their own code, did what they were there for, and no harm was reported."""
        code = self.running.end(within_s)
        output = self.running.output
        assert code == int(self.running.job.main["command"][-1]), f"{output}\n{self.running.hub_log()}"
        assert "pi is approximately 3.14159265" in output
        assert self.running.ranks() == dict(enumerate(self.running.job.workers))
        assert not words_of_ours(output)
