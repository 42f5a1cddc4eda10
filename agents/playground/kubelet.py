"""The pods' life: creation, the states they go through, their main processes, their end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from . import access, pod_status, pods
from .lifecycle import PodLifecycle
from .manifest import ManifestError
from .process_runtime import ProcessRuntime
from .processes import MARK, PodProcesses, Zygote, marked
from .resources import PODS
from .runtime import EngineError
from .volumes import Volumes

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from .access import Access
    from .engine import Engine
    from .runtime import PodRuntime
    from .store import Object, Store


class LivePod:
    """A pod that is there: its object is in the store, its processes here."""

    def __init__(self, pod: pods.Pod, uid: str, address: str, folder: str) -> None:
        self.pod = pod
        self.uid = uid
        self.address = address
        self.folder = folder
        self.image: Mapping[str, str] | None = None  # what its environment begins with, if not as the cluster's
        self.processes: PodProcesses | None = None
        self.steps_over = False  # what comes next is not decided by the pod's steps any more
        self.ended = False  # its processes are being killed
        self.is_scripted = True  # its status is what its steps and `set_state` say, whatever its containers do
        self.runtime: PodRuntime
        self.lifecycle: PodLifecycle | None = None  # if its containers are carried out


class Kubelet:
    """Carries out what is asked of the pods."""

    def __init__(self, store: Store, zygote: Zygote, settings: Mapping[str, Any], users: Access) -> None:
        self._loop = asyncio.get_running_loop()
        self.store = store
        self._access = users
        self.services: Mapping[str, str] = {}
        """What every container that came by the API is told of the API server."""
        self.images: Mapping[str, tuple[str, Mapping[str, str]]] = settings["images"]
        """What the pods of MPIJobs begin with instead: see cluster.py."""
        self.zygote = zygote
        with open(settings["ca"], encoding="ascii") as file:
            self._ca = file.read()
        self._runs_pods: bool = settings["runs_pods"]
        self._folder: str = settings["folder"]
        self._environ = dict(settings["environ"])
        self._engine: Engine | None = None
        """What runs the containers of pods that come by the API; None: they are processes."""
        if settings["engine"] is not None:
            from .engine import Engine  # noqa: PLC0415 - most clusters have none, nor the package that it needs

            self._engine = Engine(**settings["engine"])
            os.umask(0o022)  # containers' users read our files
        self._live: dict[tuple[str, str], LivePod] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hosts = HostsFile(self._loop, os.path.join(self._folder, "hosts"), self._live)

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do this beside all else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)  # the loop alone would let it be collected
        task.add_done_callback(self._tasks.discard)
        return task

    def find(self, namespace: str, name: str) -> LivePod:
        """A pod. Raises KeyError."""
        return self._live[namespace, name]

    def all(self) -> list[LivePod]:
        """Every pod."""
        return list(self._live.values())

    def create(self, pod: pods.Pod) -> Object:
        """Create a pod and start on its steps. Raises store.ExistsError."""
        live = self._admit(pod, pods.new_object(pod))
        self._next_step(live, list(pod.steps))
        return self.object(live)

    def accept(self, thing: Object) -> Object:
        """Take a pod that came by the API, and run it, or have it ready at once. Raises store.ExistsError.

        The answer is the pod as it was created: what becomes of it comes later, as in a cluster.
        """
        pod = pods.of_object(thing)
        live = self._admit(pod, thing, has_address=self._engine is None)
        made = self.object(live)
        self._loop.call_soon(self._begin, live, thing)
        return made

    def _begin(self, live: LivePod, thing: Object) -> None:
        if live.steps_over:
            return
        self.set_state(live, "scheduled")
        if not self._runs_pods:
            self._next_step(live, list(live.pod.steps))
            return
        volumes = Volumes(self.store, thing, os.path.join(live.folder, "volumes"), hidden=self._folder, ca=self._ca)
        if self._engine is not None:
            from .container_runtime import ContainerRuntime  # noqa: PLC0415 - as the engine

            live.runtime = ContainerRuntime(self, live, thing, volumes, self._engine)
        else:
            try:
                live.pod = dataclasses.replace(live.pod, mounts=volumes.shown())
            except ManifestError as error:
                self.set_state(live, "config-error", message=str(error))
                return
            live.runtime = ProcessRuntime(self, live, thing, volumes)
        live.is_scripted = False
        live.lifecycle = PodLifecycle(self, live, thing)

    def _admit(self, pod: pods.Pod, thing: Object, *, has_address: bool = True) -> LivePod:
        address = pod.address or (pods.new_address() if has_address else "")
        thing["status"] = pod_status.status_of(thing, "pending", address=address)
        self.store.create(PODS.key, thing)
        uid = thing["metadata"]["uid"]
        folder = os.path.join(self._folder, "pods")
        os.makedirs(folder, mode=0o700, exist_ok=True)  # volumes in it are anybody's
        live = LivePod(pod, uid, address, os.path.join(folder, f"{pod.name}.{uid[:8]}"))
        live.runtime = ProcessRuntime(self, live, thing, None)
        self._live[pod.namespace, pod.name] = live
        for name in ("home", "tmp", "stage"):
            os.makedirs(os.path.join(live.folder, name))
        self._hosts.change()
        return live

    def delete(self, live: LivePod, grace_s: float = 0.0) -> asyncio.Future[None]:
        """Delete a pod: TERM to its main processes; KILL to all when those have ended, or after the grace; DELETED."""

        def mark(thing: Object) -> None:
            thing["metadata"]["deletionTimestamp"] = pods.timestamp(time.time() + grace_s)
            thing["metadata"]["deletionGracePeriodSeconds"] = int(grace_s)

        self.store.update(PODS.key, live.pod.namespace, live.pod.name, mark)
        live.steps_over = live.ended = True
        if live.processes is not None or live.lifecycle is not None:
            return self.background(self._end(live, grace_s))
        self._remove(live)
        done: asyncio.Future[None] = self._loop.create_future()
        done.set_result(None)
        return done

    async def _end(self, live: LivePod, grace_s: float) -> None:
        if live.lifecycle is not None:
            await live.lifecycle.terminate(grace_s)
        elif live.processes is not None:
            await live.processes.end()
        self._remove(live)

    def _remove(self, live: LivePod) -> None:
        if self._live.get((live.pod.namespace, live.pod.name)) is live:
            del self._live[live.pod.namespace, live.pod.name]
            self.store.delete(PODS.key, live.pod.namespace, live.pod.name)
            self._hosts.change()

    def set_state(self, live: LivePod, state: str, *, message: str = "", exit_code: int | None = None) -> None:
        """Put a pod in a state; those that end it end its processes too. Raises ValueError."""
        if self._live.get((live.pod.namespace, live.pod.name)) is not live:
            return

        def change(thing: Object) -> None:
            if state not in pod_status.NO_NODE:
                thing["spec"]["nodeName"] = live.pod.node
            thing["status"] = pod_status.status_of(
                thing, state, address=live.address, message=message, exit_code=exit_code
            )

        pod_status.status_of(self.object(live), state, address=live.address)
        if live.lifecycle is not None and (state in pod_status.ENDS or not live.is_scripted):
            live.lifecycle.release()
        self.store.update(PODS.key, live.pod.namespace, live.pod.name, change)
        if state in pod_status.ENDS and live.processes is not None:
            live.steps_over = live.ended = True
            self.background(live.processes.end())
        elif (
            state in {"running", "ready"} and live.lifecycle is None and any(one.command for one in live.pod.containers)
        ):
            live.lifecycle = PodLifecycle(self, live, self.object(live))

    def processes(self, live: LivePod) -> PodProcesses:
        """The pod's processes; the shim is started with the first."""
        if live.processes is None:
            settings: dict[str, Any] = {"name": live.pod.hostname or live.pod.name, "mounts": dict(live.pod.mounts)}
            settings["missing"] = list(live.pod.missing)
            settings |= {"hosts": self._hosts.path, "stage": os.path.join(live.folder, "stage")}
            live.processes = PodProcesses(self.zygote, settings)
        return live.processes

    def base_environ(self, live: LivePod) -> dict[str, str]:
        """What each container of a pod begins with."""
        return {
            **(self._environ if live.image is None else live.image),
            "HOME": self.home(live),
            "TMPDIR": os.path.join(live.folder, "tmp"),
            "HOSTNAME": live.pod.hostname or live.pod.name,
            MARK: live.uid,
        }

    def issue_token(self, namespace: str, account: str) -> str:
        """Return a new token of a ServiceAccount, which may do what RoleBindings give it."""
        return self._access.add_account(namespace, account, access.bound(self.store, namespace, account))

    def set_address(self, live: LivePod, address: str) -> None:
        """A pod has got its podIP."""
        live.address = address
        self._hosts.change()

    @property
    def hosts(self) -> str:
        """Path of the pods' hosts file."""
        return self._hosts.path

    def home(self, live: LivePod) -> str:
        """A pod's home, which is its working directory too."""
        return os.path.join(live.folder, "home")

    def leftovers(self, live: LivePod) -> set[int]:
        """The pod's live processes other than its main ones: its tree, and whatever carries its mark."""
        if live.processes is None:
            return set()
        mains = live.processes.main_pids
        return (live.processes.tree() | marked(live.uid)) - mains

    async def end_all(self) -> None:
        """Kill every process of every pod."""
        for live in self._live.values():
            live.steps_over = live.ended = True
        await asyncio.gather(*(live.runtime.end() for live in self.all()))
        if self._engine is not None:
            with contextlib.suppress(EngineError):  # the handle tries too, and tells
                await asyncio.to_thread(self._engine.remove_all)

    def write_status(self, live: LivePod, status: Object) -> None:
        """Tell how a pod is."""

        def change(thing: Object) -> None:
            thing["status"] = status

        self.store.update(PODS.key, live.pod.namespace, live.pod.name, change)

    def object(self, live: LivePod) -> Object:
        """A pod's API object.

        Raises KeyError if it is gone.
        """
        thing = self.store.get(PODS.key, live.pod.namespace, live.pod.name)
        if thing is None:
            raise KeyError(live.pod.name)
        return thing

    def _next_step(self, live: LivePod, steps: list[tuple[float, str]]) -> None:
        if not steps or live.steps_over:
            return
        (delay_s, state), rest = steps[0], steps[1:]

        def step() -> None:
            if not live.steps_over:
                self.set_state(live, state)
                self._next_step(live, rest)

        if delay_s > 0:
            self._loop.call_later(delay_s, step)
        else:
            step()


class HostsFile:
    """The pods' hosts file, with the names that the cluster's DNS would tell: rewritten in place, as it is mounted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str, live: Mapping[tuple[str, str], LivePod]) -> None:
        self.path = path
        self._loop = loop
        self._live = live
        self._is_due = False
        self._write()

    def change(self) -> None:
        """Write it soon: once for many pods that come together."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost"]
        for live in self._live.values():
            if not live.address:  # not yet
                continue
            names = [live.pod.name]
            if live.pod.subdomain:
                full = f"{live.pod.hostname or live.pod.name}.{live.pod.subdomain}"
                names = [
                    f"{full}.{live.pod.namespace}.svc.cluster.local",
                    f"{full}.{live.pod.namespace}.svc",
                    full,
                    *names,
                ]
            lines.append(f"{live.address}\t{' '.join(names)}")
        with open(self.path, "w", encoding="ascii") as file:
            file.write("\n".join([*lines, ""]))
