"""The real operator as a process, and jobs for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from objects_api import ObjectsApi, conditions

from tests.objects import T9K, plural_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.objects import Objects

OPERATOR = os.path.join(os.path.dirname(sys.executable), "mpi-operator")
PATIENCE_S = 60.0


def operator_with(settings: str) -> Sequence[str]:
    """The operator with other times than its own."""
    modules = "cli, other_operators, plan, process, queue"
    return (sys.executable, "-c", f"from agents.operator import {modules}; {settings}; cli.main()")


# Looks for T9k's jobs and for other operators all the time, and leaves jobs to these immediately.
LOOKING_OFTEN = operator_with("process.OPTIONAL_WAIT_S = other_operators.CHECK_BUSY_S = plan.LEAVES_AFTER_S = 0.05")


class Operator:
    """One process; its log is a file, so that a test that fails can show it."""

    def __init__(
        self,
        folder: Path,
        port: int,
        *arguments: str,
        name: str = "operator",
        program: Sequence[str] = (OPERATOR,),
    ) -> None:
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
            self.process = subprocess.Popen([*program, *options], stderr=log, stdout=log)

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


@pytest.fixture
def api() -> Iterator[ObjectsApi]:
    made = ObjectsApi()
    yield made
    made.close()


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


def ssh_job(name: str) -> dict[str, Any]:
    """The same by ssh."""
    made = job(name)
    made["spec"]["transport"] = "ssh"
    return made


def t9k_job(name: str) -> dict[str, Any]:
    """One like it of T9k's: by ssh, too."""
    template = {"spec": {"containers": [{"name": "mpi-worker", "image": "pi:1"}]}}
    spec = {"runPolicy": {"cleanUpWorkers": True}, "worker": {"replicas": 2, "cmd": ["pi"], "template": template}}
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": f"{T9K}/v1beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec}


FACES = [job, ssh_job, t9k_job]  # in turn


def submit(api: ObjectsApi, *names: str, faces: Sequence[Callable[[str], Any]] = FACES) -> None:
    with api.objects.changed:
        for number, name in enumerate(names):
            body = faces[number % len(faces)](name)
            api.objects.add(plural_of(body), "team", body)


def job_of(objects: Objects, name: str) -> Any:
    return objects.stored.get(("mpijobs", "team", name)) or objects.at((f"mpijobs.{T9K}", "team", name))


def all_succeeded(names: list[str]) -> Callable[[Objects], bool]:
    ends = {"Succeeded", "Completed"}  # kubeflow's and T9k's
    return lambda objects: all(ends & {*conditions(job_of(objects, name))} for name in names)


def workers_gone(objects: Objects) -> bool:
    return not objects.select("pods", labels="mpi-agents/role=worker")


def have_been_made(pods: int) -> Callable[[Objects], bool]:
    return lambda objects: sum(count for (its, _, _), count in objects.created.items() if its == "pods") >= pods
