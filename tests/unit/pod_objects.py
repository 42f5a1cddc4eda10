"""Pods of the least job, changed at the paths that a test names."""

from __future__ import annotations

from typing import Any

from mpijobs import job

from agents.operator import objects
from agents.operator.settings import PodSettings

Object = dict[str, Any]

SETTINGS = PodSettings(image="mpi-agents:1", annotations={})
EXEC: Object = {"spec/transport": "exec"}
LAUNCHER, WORKER = "spec/mpiReplicaSpecs/Launcher", "spec/mpiReplicaSpecs/Worker"
CONTAINER = "template/spec/containers/0"


def launcher(version: str = "v1", changes: Object | None = None, settings: PodSettings = SETTINGS) -> Object:
    """The launcher's pod."""
    made = objects.launcher(job(version, EXEC | (changes or {})), settings)
    return made if made["kind"] == "Pod" else made["spec"]["template"]


def worker(version: str = "v1", changes: Object | None = None, index: int = 0) -> Object:
    return objects.worker(job(version, EXEC | (changes or {})), index, SETTINGS)


def named(entries: list[Object], name: str) -> Object:
    return next(one for one in entries if one["name"] == name)


def ours(pod: Object) -> list[Object]:
    return [one for one in pod["spec"]["initContainers"] if one["image"] == SETTINGS.image]


def variables(container: Object) -> Object:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", [])}
