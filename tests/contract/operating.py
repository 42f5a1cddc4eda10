"""The real operator as a process, and jobs for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

OPERATOR = os.path.join(os.path.dirname(sys.executable), "mpi-operator")
PATIENCE_S = 60.0


class Operator:
    """One process; its log is a file, so that a test that fails can show it."""

    def __init__(self, folder: Path, port: int, *arguments: str, name: str = "operator") -> None:
        config = folder / "kubeconfig"
        cluster = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        contexts = [{"name": "x", "context": {"cluster": "x", "user": "x"}}]
        user = {"name": "x", "user": {"token": "s3cret-t0ken"}}
        config.write_text(
            json.dumps({"clusters": [cluster], "contexts": contexts, "users": [user], "current-context": "x"})
        )
        self.log = folder / f"{name}.log"
        options = ["--port", "0", "--kubeconfig", str(config), "--image", "agents:1", *arguments]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([OPERATOR, *options], stderr=log, stdout=log)

    def __enter__(self) -> Operator:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            print(self.said())
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def terminate(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def wait_until_said(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.said():
            assert self.process.poll() is None, "it has ended"
            assert time.monotonic() < deadline, f"not said: {words}"
            time.sleep(0.02)

    def said(self) -> str:
        return self.log.read_text()


def get(url: str) -> tuple[int, str]:
    """Return an HTTP answer's code and text."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def job(name: str, workers: int = 2, **policy: Any) -> dict[str, Any]:
    """A v1 job by exec."""

    def role(replicas: int) -> dict[str, Any]:
        container = {"name": "mpi", "image": "pi:1", "command": ["mpirun", "pi"]}
        return {"replicas": replicas, "template": {"spec": {"containers": [container]}}}

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "All", **policy},
            "mpiReplicaSpecs": {"Launcher": role(1), "Worker": role(workers)},
        },
    }
