"""What a pod's runtime and its lifecycle share: its object, folder, address, environment and processes."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
from typing import TYPE_CHECKING, Any

from . import access
from .processes import PodProcesses
from .resources import PODS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from . import pods
    from .access import Access
    from .processes import Zygote
    from .store import Object, Store


class Node:
    """What all pods share. `pods`: those that exist, by namespace and name."""

    def __init__(
        self,
        store: Store,
        zygote: Zygote,
        settings: Mapping[str, Any],
        users: Access,
        pods: Mapping[tuple[str, str], PodSandbox],
    ) -> None:
        self.store = store
        self.zygote = zygote
        self.folder: str = settings["folder"]
        self.environ: Mapping[str, str] = settings["environ"]
        self.images: Mapping[str, tuple[str, Mapping[str, str]]] = settings["images"]
        """What the pods of MPIJobs have instead of `environ`: see cluster.py."""
        self.services: Mapping[str, str] = {}
        """The API server's address, for every container that was created through the API."""
        self.hosts = HostsFile(os.path.join(self.folder, "hosts"), pods)
        self._access = users
        self._tasks: set[asyncio.Task[Any]] = set()

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task and keep a reference to it, as the loop has none."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def issue_token(self, namespace: str, account: str) -> str:
        """Return a new token of a ServiceAccount, which may do what RoleBindings give it."""
        token, name = secrets.token_urlsafe(24), f"system:serviceaccount:{namespace}:{account}"
        self._access.add_token(token, access.User(name, (), bound=access.bound(self.store, namespace, account)))
        return token


class PodSandbox:
    """One pod: its object is in the store, its processes are here."""

    def __init__(self, node: Node, pod: pods.Pod, uid: str, address: str) -> None:
        self.node = node
        self.pod = pod
        self.uid = uid
        self.address = address
        self.folder = os.path.join(node.folder, "pods", f"{pod.name}.{uid[:8]}")
        self.home = os.path.join(self.folder, "home")
        """The containers' home and working directory."""
        self.image: Mapping[str, str] | None = None  # what its environment begins with, if not the node's

    @functools.cached_property
    def processes(self) -> PodProcesses:
        """The pod's processes; the shim is started with the first."""
        settings: dict[str, Any] = {"name": self.pod.hostname or self.pod.name, "mounts": dict(self.pod.mounts)}
        settings |= {"hosts": self.node.hosts.path}
        return PodProcesses(self.node.zygote, {**settings, "stage": os.path.join(self.folder, "stage")})

    def environ(self) -> dict[str, str]:
        """What the environment of each container begins with."""
        return {
            **(self.node.environ if self.image is None else self.image),
            "HOME": self.home,
            "TMPDIR": os.path.join(self.folder, "tmp"),
            "HOSTNAME": self.pod.hostname or self.pod.name,
        }

    def object(self) -> Object:
        """Return the pod's API object. Raises KeyError if it is gone."""
        thing = self.node.store.get(PODS.key, self.pod.namespace, self.pod.name)
        if thing is None:
            raise KeyError(self.pod.name)
        return thing

    def set_address(self, address: str) -> None:
        """Set the podIP."""
        self.address = address
        self.node.hosts.change()


class HostsFile:
    """The pods' hosts file, with the names that a cluster's DNS has: rewritten in place, as it is mounted."""

    def __init__(self, path: str, pods: Mapping[tuple[str, str], PodSandbox]) -> None:
        self.path = path
        self._pods = pods
        self._is_due = False
        self._write()

    def change(self) -> None:
        """Write it soon: once for many pods that are created together."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost"]
        for one in self._pods.values():
            names = [one.pod.name]
            if one.pod.subdomain:
                full = f"{one.pod.hostname or one.pod.name}.{one.pod.subdomain}"
                service = f"{full}.{one.pod.namespace}.svc"
                names = [f"{service}.cluster.local", service, full, *names]
            lines += [f"{one.address}\t{' '.join(names)}"] if one.address else []
        with open(self.path, "w", encoding="ascii") as file:
            file.write("\n".join([*lines, ""]))
