"""A user's shell with `kubectl-mpi`, and jobs to submit by it.

Most calls are forked from a process that has loaded the program: its start takes more time than what it is asked for.
"""

from __future__ import annotations

import multiprocessing
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
ESCAPE = "\x1b["
_LOADED = multiprocessing.get_context("forkserver")
_LOADED.set_forkserver_preload(["__main__", "agents.kubectl_mpi.cli", __name__])


class Shell:
    """A user's shell: `kubectl-mpi` with a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig

    def environ(self, **more: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "KUBERNETES_SERVICE_HOST"}
        }
        folder = os.path.dirname(sys.executable)  # kubectl is there
        path = f"{folder}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "KUBECONFIG": self.kubeconfig, "PATH": path, "TERM": "xterm", **more}

    def command(self, *arguments: str) -> tuple[str, list[str], dict[str, str]]:
        """What `os.execve` takes to call it."""
        return sys.executable, [sys.executable, "-m", "agents.kubectl_mpi", *arguments], self.environ()

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "agents.kubectl_mpi", *arguments]
        return subprocess.Popen(command, env=self.environ(), stdin=subprocess.DEVNULL, text=True, **streams)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Call it; return stdout, or stderr if it is to fail with a code."""
        out, error = self.call(*arguments, code=code, stdin=stdin)
        return error if code else out

    def call(self, *arguments: str, code: int, stdin: str = "") -> tuple[str, str]:
        """Call it; return stdout and stderr."""
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
            for path, text in zip(streams, (stdin, "", ""), strict=True):
                path.write_text(text)
            process = _LOADED.Process(target=_call, args=(arguments, self.environ(), os.getcwd(), streams))
            process.start()
            process.join(100)
            process.kill()
            process.join()
            out, error = (path.read_text() for path in streams[1:])
        assert process.exitcode == code, (out, error)
        assert ESCAPE not in out + error
        assert "Traceback" not in error
        return out, error

    def kubectl(self, *arguments: str, stdin: str = "", path: str = "") -> str:
        """Call kubectl, which looks for plugins in `path` first; return its stdout."""
        environ = self.environ()
        environ["PATH"] = f"{path}{os.pathsep}{environ['PATH']}" if path else environ["PATH"]
        command = ["kubectl", *arguments]
        return subprocess.run(command, env=environ, input=stdin, capture_output=True, text=True, check=True).stdout

    def completed(self, shell: str, line: str, word: str) -> str:
        """What a shell is told that the word at the end of a line may become."""
        place = word if shell == "fish" else str(line.count(" "))
        asked = {"_KUBECTL_MPI_COMPLETE": f"{shell}_complete", "COMP_WORDS": line + word, "COMP_CWORD": place}
        command = [sys.executable, "-m", "agents.kubectl_mpi"]
        done = subprocess.run(
            command, env=self.environ(**asked), capture_output=True, text=True, timeout=90, check=False
        )  # less than the client waits for an answer
        assert done.stderr == ""
        return done.stdout

    def on_terminal(self, *arguments: str, **more: str) -> str:
        """Call it with a terminal as its stdout; return what is on that."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "agents.kubectl_mpi", *arguments]
        with subprocess.Popen(command, env=self.environ(**more), stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            found = b""
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # EIO: its end
                    break
                if not data:
                    break
                found += data
        os.close(ours)
        assert process.returncode == 0, found
        return found.decode()


def _call(arguments: tuple[str, ...], environ: dict[str, str], folder: str, streams: list[Path]) -> None:
    """Be `kubectl-mpi` in a process that has loaded it."""
    from agents.kubectl_mpi.cli import main  # noqa: PLC0415 - the callers need not load it

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for fd, path in enumerate(streams):
        file = os.open(path, os.O_RDWR)
        os.dup2(file, fd)
        os.close(file)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing has closed it
    sys.argv = [os.path.join(os.path.dirname(main.__code__.co_filename), "__main__.py"), *arguments]
    main()


def manifest(name: str, *command: str, version: str = "v1", **spec: Any) -> str:
    """A job whose launcher runs this command; its workers wait."""
    container = {"name": "mpi", "image": "example/mpi"}
    roles = {
        "Launcher": {"template": {"spec": {"containers": [{**container, "command": [*command]}]}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    metadata = {"name": name, "annotations": {"mpi-agents/transport": "exec"}}
    body = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": metadata}
    return str(yaml.safe_dump({**body, "spec": {"mpiReplicaSpecs": roles, "runPolicy": spec}}))


def cells(table: str, name: str) -> list[str]:
    """A job's line of a table."""
    return next(line.split() for line in table.splitlines() if line.split()[:1] == [name])
