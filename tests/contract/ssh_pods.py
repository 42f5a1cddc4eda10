"""Pods for ssh: namespaces of their own, prepared by sshd_bootstrap, in which the real sshd and ssh run.

A pod has the folders where a kubelet mounts them, a network with loopback alone, and its own processes, which end with
it. So nothing here can meet this machine's own sshd, its users' keys or its ports.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from ssh_server import NO_SSHD, SSHD

from rshagent.native import client_build
from sshd_bootstrap import start_build
from sshd_bootstrap.exits import BootstrapError
from sshd_bootstrap.prepare import prepare
from sshd_bootstrap.settings import Settings
from tests.keys import write_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PATIENCE_S = 60
RUN = "/run/mpi-agents/ssh"
DEFAULT = (SSHD, "-D", "-e", "-f", f"{RUN}/sshd_config")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=99"}  # what is still held at the end is none
_UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private")
LAUNCHED_BY = ("ssh", "-F", f"{RUN}/ssh_config")


def _lacking() -> str:
    if NO_SSHD:
        return NO_SSHD
    if os.geteuid() != 0:
        return "only root can be several users"
    if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
        return "no namespaces can be made here"
    return ""


_LACKING = _lacking()
needs_pods = pytest.mark.skipif(bool(_LACKING), reason=_LACKING or "all is there")


@dataclass(frozen=True)
class Spec:
    """One pod. `variables`: the MPI_SSH_* that differ from a plain worker's. `etc`: what files of /etc have."""

    uid: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    etc: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    run_as: int | None = None  # None: as who it was prepared for
    first_port: int | None = None  # that any uid may take
    capabilities: str = "+all"  # as setpriv --bounding-set has it


class Pod:
    """A pod whose volume is prepared; `start` runs its main container's command."""

    def __init__(self, folder: str, spec: Spec, helper: str) -> None:
        self.folder = folder
        self.spec = spec
        self.keys = os.path.join(folder, "keys")
        self.volume = os.path.join(folder, "volume")
        self.log = os.path.join(folder, "log")
        self._processes: list[subprocess.Popen[bytes]] = []
        for path in (self.keys, self.volume, os.path.join(folder, "etc"), os.path.join(folder, "dev")):
            os.mkdir(path)
        os.chmod(self.volume, 0o777)
        os.symlink(os.path.dirname(helper), os.path.join(folder, "tools"))
        write_keys(self.keys)

    @property
    def mount_path(self) -> str:
        return self.spec.variables.get("MPI_SSH_MOUNT_PATH", "/root/.ssh")

    def prepare(self) -> None:
        """Do it as its uid; raises BootstrapError."""
        settings = {
            "MPI_SSH_KEYS": self.keys,
            "MPI_SSH_VOLUME": self.volume,
            "MPI_AGENT_TOOLS": os.path.join(self.folder, "tools"),
            "MPI_SSH_ROLE": "worker",
            **self.spec.variables,
        }
        as_uid(self.spec.uid, lambda: prepare(Settings.load(settings)))

    def open(self) -> None:
        """Make its namespaces and mounts."""
        mounts = {
            **self.spec.mounts,
            RUN: os.path.join(self.volume, "run"),
            self.mount_path: os.path.join(self.volume, "auth"),
            "/run/sshd": os.path.join(self.volume, "empty"),
        }
        for name in ("passwd", "group"):
            if os.path.exists(os.path.join(self.volume, name)):
                mounts[f"/etc/{name}"] = os.path.join(self.volume, name)
        for name, text in self.spec.etc.items():
            mounts[f"/etc/{name}"] = os.path.join(self.folder, "etc", name)
            with open(mounts[f"/etc/{name}"], "w", encoding="utf-8") as file:
                file.write(text)
        spec = {"folder": self.folder, "mounts": mounts, "first_port": self.spec.first_port}
        program = os.path.join(os.path.dirname(__file__), "ssh_pod_init.py")
        self._first = subprocess.Popen(
            [*_UNSHARE, sys.executable, "-I", program, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._first.stdout is not None
        assert self._first.stdout.readline() == b"ready\n", "the pod's namespaces can't be made"
        with open(f"/proc/{self._first.pid}/task/{self._first.pid}/children", encoding="ascii") as file:
            self.pid = file.read().split()[0]

    def close(self) -> None:
        assert self._first.stdin is not None
        assert self._first.stdout is not None
        self._first.stdin.close()
        self._first.stdout.close()
        for process in (*self._processes, self._first):  # they end with their children, and those with the pod
            process.wait(PATIENCE_S)

    def words(self, *words: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the command line that runs another in the pod, as its user, with this environment alone."""
        uid = str(self.spec.uid if self.spec.run_as is None else self.spec.run_as)
        variables = [f"{name}={value}" for name, value in {"PATH": PATH, **_SANITIZERS, **(environment or {})}.items()]
        enter = ["nsenter", "--target", self.pid, "--mount", "--net", "--pid", "--wd=/"]
        become = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        return [*enter, *become, f"--bounding-set={self.spec.capabilities}", "env", "-i", *variables, *words]

    def run(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(self.words(*words), input=stdin, capture_output=True, check=False, timeout=PATIENCE_S)

    def within_network(self, what: Callable[[], object]) -> None:
        """Call it where the pod's loopback is, in a child."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                network = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
                if ctypes.CDLL(None).setns(network, 0) == 0:
                    what()
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0

    def ssh(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Call ssh as a launcher does."""
        return self.run(*LAUNCHED_BY, *words, stdin=stdin)

    def ssh_with(self, key: str) -> subprocess.CompletedProcess[bytes]:
        """Call ssh with this key and no other, which is copied into the pod."""
        path = os.path.join(self.volume, "run", "another")
        with open(key, "rb") as source, open(path, "wb") as file:
            file.write(source.read())
        os.chmod(path, 0o600)
        options = ("-F", "none", "-oBatchMode=yes", "-oIdentitiesOnly=yes", f"-oUserKnownHostsFile={RUN}/known_hosts")
        return self.run("ssh", *options, "-p", "2222", "-i", f"{RUN}/another", "127.0.0.1", "echo there")

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        """Start sshd-start, with stderr to the log."""
        return self.spawn(f"{RUN}/sshd-start", *(words or DEFAULT))

    def spawn(self, *words: str) -> subprocess.Popen[bytes]:
        """Run the main container's command, with stderr to the log."""
        with open(self.log, "wb") as log:
            process = subprocess.Popen(self.words(*words, environment=self.spec.environment), stderr=log)
        self._processes.append(process)
        return process

    def said(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def last_words(self) -> str:
        return self.run("cat", "/dev/termination-log").stdout.decode()

    def wait_for(self, pattern: str, process: subprocess.Popen[bytes], count: int = 1) -> None:
        """Wait until the log has a line of this pattern so often."""
        until = time.monotonic() + PATIENCE_S
        while len(re.findall(pattern, self.said(), re.MULTILINE)) < count:
            assert process.poll() is None, f"sshd ended:\n{self.said()}"
            assert time.monotonic() < until, f"no {pattern}:\n{self.said()}"
            time.sleep(0.01)

    def serve(self, *words: str) -> subprocess.Popen[bytes]:
        """Have sshd run, by the default command or another, until the pod's end."""
        process = self.command(*words)
        self.wait_for("^Server listening on 0.0.0.0", process)
        return process

    def refusal(self, *words: str) -> tuple[int, str]:
        """Return how the main container ends, and its one line, which is in the termination log, too."""
        process = self.command(*words)
        code = process.wait(PATIENCE_S)
        line = self.said()
        assert line.startswith("sshd-start: "), line
        assert line.count("\n") == 1, line
        assert self.last_words() == line.rstrip("\n")
        return code, line.removeprefix("sshd-start: ").rstrip("\n")


class Pods:
    """The pods of a test, which end with it."""

    def __init__(self, helper: str) -> None:
        self._helper = helper
        self._pods: list[Pod] = []

    def new(self, spec: Spec | None = None, **changes: object) -> Pod:
        """Return one that is prepared and open."""
        pod = self.unprepared(spec, **changes)
        pod.prepare()
        pod.open()
        return pod

    def unprepared(self, spec: Spec | None = None, **changes: object) -> Pod:
        folder = tempfile.mkdtemp(prefix="ssh-pod-")
        os.chmod(folder, 0o755)
        pod = Pod(folder, replace(spec or Spec(), **changes), self._helper)  # type: ignore[arg-type]
        self._pods.append(pod)
        return pod

    def close(self) -> None:
        for pod in self._pods:
            if hasattr(pod, "_first"):
                pod.close()
            shutil.rmtree(pod.folder)


@pytest.fixture(scope="session")
def helpers() -> Iterator[dict[str, str]]:
    """The path of sshd-start as it is shipped, and of one that ends at the first thing a sanitizer finds."""
    folder = tempfile.mkdtemp(prefix="sshd-start-")  # pytest's own is for its user alone
    os.chmod(folder, 0o755)
    found = {}
    for name in ("shipped", "sanitized"):
        os.mkdir(os.path.join(folder, name))
        found[name] = os.path.join(folder, name, "sshd-start")
        shutil.copy(client_build.kept("sshd-start", start_build.SOURCES, sanitize=name == "sanitized"), found[name])
    yield found
    shutil.rmtree(folder)


@pytest.fixture
def pods(helpers: dict[str, str]) -> Iterator[Pods]:
    made = Pods(helpers["sanitized"])
    yield made
    made.close()


def as_uid(uid: int, what: Callable[[], object]) -> None:
    """Call it as another user, in a child; a BootstrapError comes back."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            what()
            code = 0
        except BootstrapError as error:
            code = error.exit_code
            os.write(theirs, error.message.encode())
        finally:
            os._exit(code)
    os.close(theirs)
    with open(ours, encoding="utf-8") as file:
        message = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code != 99, "not a BootstrapError"
    if code:
        raise BootstrapError(code, message)
