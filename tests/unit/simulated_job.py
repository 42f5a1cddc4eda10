"""The job that a user has written, in each dialect, and what a user changes in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mpijobs import mpijob

from agents.operator.trim import LARGE

Body = dict[str, Any]

RESUMED = ["resumed"]  # what the workers of a resumed job run, where resumeSpecs say so


@dataclass(frozen=True)
class Choices:
    """What the first writing of a job chooses."""

    dialect: str = "v2beta1"
    transport: str = "exec"
    clean: str = "None"  # cleanPodPolicy
    waits: bool = False
    restarts: tuple[str, str] = ("Never", "Never")  # of launcher and workers
    limits: dict[str, int] = field(default_factory=dict)
    update: str = ""
    has_resume_specs: bool = False
    is_large: bool = False  # so that the operator keeps no more than its outline
    idles: bool = False  # the workers sleep: they may be deleted with a short grace period


def new(choices: Choices) -> Body:
    """Return the job as a user creates it."""
    if choices.dialect == "virtual":
        made = mpijob("virtual", {"metadata/name": "pi", "spec/transport": choices.transport})
    else:
        made = _t9k(choices) if choices.dialect.startswith("t9k") else _kubeflow(choices)
    if choices.idles:
        _workers(made["spec"])["template"]["spec"]["containers"][0]["command"] = ["sleep", "infinity"]
    if choices.is_large:
        _workers(made["spec"])["template"]["spec"]["containers"][0]["env"] = [{"name": "LONG", "value": "x" * LARGE}]
    if choices.has_resume_specs:
        specs = [{"type": "worker", "command": RESUMED}]
        made["spec"].setdefault("runMode", {})["pause"] = {"enabled": False, "resumeSpecs": specs}
    return made


def is_t9k(body: Body) -> bool:
    return str(body["apiVersion"]).startswith("batch.tensorstack.dev/")


def is_virtual(body: Body) -> bool:
    return str(body["apiVersion"]).startswith("mpi-agents.io/")


def scale(spec: Body, replicas: int) -> None:
    _workers(spec).update(replicas=replicas)


def change_image(spec: Body, image: str) -> None:
    _workers(spec)["template"]["spec"]["containers"][0].update(image=image)


def spoil(spec: Body, is_bad: bool) -> None:
    spec.update(rbac="nobody" if is_bad else "managed")


def pause(spec: Body, is_paused: bool) -> None:
    """By kubeflow's field where there is one and nothing else of a pause was said."""
    if "nodes" in spec:
        spec.update(suspend=is_paused)
        return
    mode = spec.setdefault("runMode", {})
    if "mpiReplicaSpecs" in spec and "pause" not in mode:
        spec["runPolicy"].update(suspend=is_paused)
    else:
        mode.setdefault("pause", {}).update(enabled=is_paused)


def debug(spec: Body, is_debugged: bool) -> None:
    spec.setdefault("runMode", {}).setdefault("debug", {}).update(enabled=is_debugged)


def _kubeflow(choices: Choices) -> Body:
    dialect = choices.dialect
    launcher, worker = (one if dialect == "v1" else one.replace("ExitCode", "Never") for one in choices.restarts)
    changes = {
        "apiVersion": "kubeflow.org/v2beta1",
        "spec/dialect": dialect,
        "spec/transport": choices.transport,
        "spec/runPolicy": {"cleanPodPolicy": choices.clean, "backoffLimit": 2, **choices.limits},
        "spec/launcherCreationPolicy": "WaitForWorkersReady" if choices.waits else "AtStartup",
        "spec/mpiReplicaSpecs/Launcher/restartPolicy": launcher,
        "spec/mpiReplicaSpecs/Worker/restartPolicy": worker,
    }
    if choices.update:
        changes["metadata/annotations"] = {"mpi-agents/worker-update-strategy": choices.update}
    return mpijob(dialect, changes)


def _t9k(choices: Choices) -> Body:
    cleaned = {"None": {"cleanUpWorkers": False}, "All": {"cleanUpWorkers": True}}
    policy = cleaned.get(choices.clean, {"cleanPodPolicy": choices.clean})
    changes: Body = {
        "spec/transport": choices.transport,
        "spec/scheduler": {"t9kScheduler": {"queue": "default", "priority": 50}},
        "spec/runPolicy": {**policy, "backoffLimit": 2, **choices.limits},
    }
    if choices.dialect == "t9k-3":
        worker, launcher = (one.replace("ExitCode", "Never") for one in reversed(choices.restarts))
        changes["spec/replicaSpecs/0/restartPolicy"] = {"policy": worker}
        changes["spec/replicaSpecs/1/restartPolicy"] = {"policy": launcher, "limit": 2}
    made = mpijob(choices.dialect, changes)
    if choices.waits:
        _workers(made["spec"])["template"]["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 2222}}
    return made


def _workers(spec: Body) -> Body:
    found: Body = spec.get("worker") or spec.get("nodes", {})
    if "mpiReplicaSpecs" in spec:
        found = spec["mpiReplicaSpecs"]["Worker"]
    elif "replicaSpecs" in spec:
        found = next(one for one in spec["replicaSpecs"] if one["type"] == "worker")
    return found
