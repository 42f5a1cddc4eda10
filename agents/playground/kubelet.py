"""The pods: their creation, the states they go through, their end."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from . import pod_status, pods
from .lifecycle import PodLifecycle
from .manifest import ManifestError
from .process_runtime import ProcessRuntime
from .resources import PODS
from .runtime import EngineError
from .sandbox import Node, PodSandbox
from .volumes import Volumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .access import Access
    from .engine import Engine
    from .processes import Zygote
    from .runtime import PodRuntime
    from .store import Object, Store


class LivePod(PodSandbox):
    """A pod that exists, and who decides its status."""

    ended = False  # its processes are being killed
    runtime: PodRuntime
    lifecycle: PodLifecycle | None = None  # if its containers are carried out


class Kubelet:
    """Carries out what is asked of the pods."""

    def __init__(self, store: Store, zygote: Zygote, settings: Mapping[str, Any], users: Access) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._live: dict[tuple[str, str], LivePod] = {}
        self.node = Node(store, zygote, settings, users, self._live)
        with open(settings["ca"], encoding="ascii") as file:
            self._ca = file.read()
        self._runs_pods: bool = settings["runs_pods"]
        self._engine: Engine | None = None
        """What runs the containers of pods that were created through the API; None: they are processes."""
        if settings["engine"] is not None:
            from .engine import Engine  # noqa: PLC0415 - most clusters have none, nor the package that it needs

            self._engine = Engine(**settings["engine"])
            os.umask(0o022)  # containers' users read our files

    def find(self, namespace: str, name: str) -> LivePod:
        """A pod. Raises KeyError."""
        return self._live[namespace, name]

    def all(self) -> list[LivePod]:
        """Every pod."""
        return list(self._live.values())

    def create(self, pod: pods.Pod) -> Object:
        """Create a pod in its state. Raises store.ExistsError."""
        live = self._admit(pod, pods.new_object(pod))
        if pod.state != "pending":
            self.set_state(live, pod.state)
        return live.object()

    def accept(self, thing: Object) -> Object:
        """Take a pod that was created through the API, and run it, or make it ready. Raises store.ExistsError.

        The answer is the pod as it was created: its status changes later, as in a cluster.
        """
        live = self._admit(pods.of_object(thing), thing, has_address=self._engine is None)
        made = live.object()
        self._loop.call_soon(self._begin, live, thing)
        return made

    def _begin(self, live: LivePod, thing: Object) -> None:
        if live.ended:
            return
        self.set_state(live, "scheduled")
        if not self._runs_pods:
            self.set_state(live, live.pod.state)
            return
        hidden = self.node.folder
        volumes = Volumes(self._store, thing, os.path.join(live.folder, "volumes"), hidden=hidden, ca=self._ca)
        if self._engine is not None:
            from .container_runtime import ContainerRuntime  # noqa: PLC0415 - as the engine

            live.runtime = ContainerRuntime(live, thing, volumes, self._engine)
        else:
            try:
                live.pod = dataclasses.replace(live.pod, mounts=volumes.shown())
            except ManifestError as error:
                self.set_state(live, "config-error", message=str(error))
                return
            live.runtime = ProcessRuntime(live, thing, volumes)
        live.lifecycle = PodLifecycle(live, live.runtime, thing)

    def _admit(self, pod: pods.Pod, thing: Object, *, has_address: bool = True) -> LivePod:
        address = pod.address or (pods.new_address() if has_address else "")
        thing["status"] = pod_status.status_of(thing, "pending", address=address)
        self._store.create(PODS.key, thing)
        os.makedirs(os.path.join(self.node.folder, "pods"), mode=0o700, exist_ok=True)  # anybody may write to volumes
        live = LivePod(self.node, pod, thing["metadata"]["uid"], address)
        live.runtime = ProcessRuntime(live, thing, None)
        self._live[pod.namespace, pod.name] = live
        for name in ("home", "tmp", "stage"):
            os.makedirs(os.path.join(live.folder, name))
        self.node.hosts.change()
        return live

    def delete(self, live: LivePod, grace_s: float = 0.0) -> asyncio.Future[None]:
        """Delete a pod: TERM to its main processes; KILL to all when those have ended, or after the grace; DELETED."""
        thing = live.object()
        marked = {
            "deletionTimestamp": pods.timestamp(time.time() + grace_s),
            "deletionGracePeriodSeconds": int(grace_s),
        }
        self._store.replace(PODS.key, {**thing, "metadata": {**thing["metadata"], **marked}})
        live.ended = True
        if live.processes.is_running or live.lifecycle is not None:
            return self.node.background(self._end(live, grace_s))
        self._remove(live)
        done: asyncio.Future[None] = self._loop.create_future()
        done.set_result(None)
        return done

    async def _end(self, live: LivePod, grace_s: float) -> None:
        if live.lifecycle is not None:
            await live.lifecycle.terminate(grace_s)
        else:
            await live.processes.end()
        self._remove(live)

    def _remove(self, live: LivePod) -> None:
        if self._live.get((live.pod.namespace, live.pod.name)) is live:
            del self._live[live.pod.namespace, live.pod.name]
            self._store.delete(PODS.key, live.pod.namespace, live.pod.name)
            self.node.hosts.change()

    def set_state(self, live: LivePod, state: str, *, message: str = "", exit_code: int | None = None) -> None:
        """Put a pod in a state; those that end it end its processes too. Raises ValueError."""
        if self._live.get((live.pod.namespace, live.pod.name)) is not live:
            return
        thing = copy.deepcopy(live.object())
        if state not in pod_status.NO_NODE:
            thing["spec"]["nodeName"] = "node-1"
        thing["status"] = pod_status.status_of(thing, state, address=live.address, message=message, exit_code=exit_code)
        if live.lifecycle is not None:
            live.lifecycle.release()
        self._store.replace(PODS.key, thing)
        if state in pod_status.ENDS and live.processes.is_running:
            live.ended = True
            self.node.background(live.processes.end())

    async def end_all(self) -> None:
        """Kill every process of every pod."""
        for live in self._live.values():
            live.ended = True
        await asyncio.gather(*(live.runtime.end() for live in self.all()))
        if self._engine is not None:
            with contextlib.suppress(EngineError):  # the handle tries too, and reports it
                await asyncio.to_thread(self._engine.remove_all)
