"""The handle of a cluster in a folder: starts the server's process and tells it what to do."""

from __future__ import annotations

import dataclasses
import os
import secrets
import signal
import time
from typing import TYPE_CHECKING, Any

from . import resources
from .credentials import write_kubeconfig, write_service_account
from .namespaces import MOUNTS, PROCESSES
from .pod_process import PodProcess
from .pods import Pod
from .server_process import ClusterError, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from .pod_process import Leftover, Stream

Object = dict[str, Any]


class Cluster:
    """A stand-in cluster. Use it as a context: at its end every process of every pod has been killed.

    It behaves as Kubernetes 1.35 with containerd. Pods that are created through the API run as processes; without
    `runs_pods` they have none, are ready immediately, and end when `set_state` ends them. `environ` is what every
    container's environment begins with (default: PATH, LANG, LC_ALL and TZ of this process). `images` gives, by the
    job's MPI, another environment for the pods of MPIJobs, and a file that these pods wait for before they start.
    With an `engine` (the arguments of engine.Engine) pods created through the API are containers, and `address` is
    the gateway of its network.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        environ: Mapping[str, str] | None = None,
        images: Mapping[str, tuple[str, Mapping[str, str]]] | None = None,
        runs_pods: bool = True,
        engine: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.mounts = False
        """Whether pods have a host name of their own here, and `Pod.mounts` can work (UTS and mount namespaces)."""
        self.processes_apart = False
        """Whether pods have process ids, /proc and /dev/shm of their own here (pid namespaces)."""
        self.address = address
        self.port = port
        self.pid = 0
        """The server's process; its CPU time is its own, commands' not among it."""
        self._behaviour: Object = {"address": address, "runs_pods": runs_pods}
        own = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
        self._behaviour["environ"] = dict(own if environ is None else environ)
        self._behaviour["images"] = dict(images or {})
        self._behaviour["engine"] = None if engine is None else dict(engine)
        self._server: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        errors = 0
        try:
            if kind is None:
                errors = self.stats()["errors"]
        finally:
            self.close()
        if errors:
            raise ClusterError(f"the stand-in itself failed {errors} times; its traces are on stderr")

    def start(self) -> None:
        """Make certificates and start the server. Raises ClusterError."""
        self._server = ServerProcess()
        try:
            started = self._server.send({**self._behaviour, **self._prepare(), "port": self.port})
        except BaseException:
            self.close()
            raise
        self.pid, self.port, level = self._server.pid, started["port"], started["level"]
        self.mounts = level >= MOUNTS
        self.processes_apart = level >= PROCESSES

    def _prepare(self) -> dict[str, str]:
        """Make the folder and the certificates. Raises ClusterError."""
        from .certs import LOOPBACK, Authority  # noqa: PLC0415 - takes a while, in which the server is loaded

        try:
            os.makedirs(self.folder, exist_ok=True)
            authority = Authority(os.path.join(self.folder, "tls"))
            pair = authority.server(addresses=tuple(dict.fromkeys((*LOOPBACK, self.address))))
        except OSError as error:
            raise ClusterError(f"{self.folder} can't be written to: {error.strerror}; choose another folder") from None
        return {"folder": self.folder, "certificate": pair.certificate, "key": pair.key, "ca": self.ca}

    def close(self) -> None:
        """End the server and every process of every pod. Harmless if done before."""
        if self._server is not None:
            self._server.close()
            self._server = None

    # Objects ---------------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request to the API, and return the object of the answer. Raises ClusterError."""
        return self._ask("request", method=method, path=path, body=body)  # type: ignore[no-any-return]

    def create(self, body: Object) -> Object:
        """Make an object of a manifest, in the namespace "default" if it names none. Raises ClusterError."""
        api_version, kind = str(body.get("apiVersion")), str(body.get("kind"))
        resource = resources.of_kind(api_version, kind)
        if resource is None:
            raise ClusterError(
                f"the stand-in has no {kind} of {api_version}: it runs MPIJobs, and pods; "
                "for the rest take a cluster (docs/install.md)"
            )
        where = (body.get("metadata") or {}).get("namespace") or "default"
        path = resource.path(api_version.rpartition("/")[2], where if resource.namespaced else "")
        return self.request("POST", path, body)

    # Pods ------------------------------------------------------------------------------------------------------------

    def create_pod(self, pod: Pod | str, **fields: Any) -> Object:
        """Create a pod, given as a `Pod` or by its name and `Pod`'s fields. Returns the API object."""
        if isinstance(pod, str):
            pod = Pod(pod, **fields)
        elif fields:
            pod = dataclasses.replace(pod, **fields)
        return self._ask("api.kubelet.create", pod=pod)  # type: ignore[no-any-return]

    def create_workers(self, count: int, name: str = "worker", **fields: Any) -> list[str]:
        """Create pods NAME-0, NAME-1 … and return their names."""
        names = [f"{name}-{number}" for number in range(count)]
        for one in names:
            self.create_pod(one, **fields)
        return names

    def delete_pod(self, name: str, namespace: str = "default", *, streams: str = "end") -> None:
        """Delete a pod and wait until it is gone with all its processes.

        Its exec streams end with the commands' exit codes (137); with `streams="freeze"` they stay open and say nothing
        more but pongs, as when a node is gone.
        """
        self._ask("delete", name=name, namespace=namespace, streams=streams)

    def set_state(self, name: str, state: str, *, exit_code: int | None = None) -> None:
        """Put a pod in one of `pod_status.STATES`; states of an ended pod kill its processes."""
        self._ask("set_state", name=name, namespace="default", state=state, exit_code=exit_code)

    def pod(self, name: str, namespace: str = "default") -> Object:
        """A pod's API object."""
        return self._ask("pod", name=name, namespace=namespace)["object"]  # type: ignore[no-any-return]

    def pod_folder(self, name: str, namespace: str = "default") -> str:
        """A pod's folder: `home` (its working directory), `tmp`, and CONTAINER.log of the main processes."""
        return str(self._ask("pod", name=name, namespace=namespace)["folder"])

    def pod_address(self, name: str, namespace: str = "default") -> str:
        """A pod's podIP: an address in 127.0.0.0/8."""
        return str(self._ask("pod", name=name, namespace=namespace)["address"])

    def mounted(self, name: str, namespace: str = "default") -> bool:
        """Whether a pod sees its `mounts` and a hosts file with the cluster's pods."""
        return bool(self._ask("enter", name=name, namespace=namespace))

    def leftovers(self, name: str, namespace: str = "default") -> list[Leftover]:
        """The live processes of a pod other than its containers' own: by descent, and by the environment's mark.

        The process ids are those outside of the pod.
        """
        return self._ask("leftovers", name=name, namespace=namespace)  # type: ignore[no-any-return]

    def exec_local(  # noqa: PLR0913 - as subprocess.Popen
        self,
        name: str,
        argv: Sequence[str],
        *,
        namespace: str = "default",
        container: str = "",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        text: bool = False,
    ) -> PodProcess:
        """Start a process in a pod, past the API, as its kubelet would: for a launcher's mpirun.

        `env` is added to the pod's environment. The streams are as in subprocess.Popen: None, a file, or PIPE, DEVNULL,
        STDOUT. The process is the pod's: it ends with it. Raises OSError if it can't be started.
        """
        process = PodProcess(stdin, stdout, stderr, text=text)
        fields = {"name": name, "namespace": namespace, "container": container, "argv": list(argv)}
        try:
            pid = self._ask("exec", process.theirs, **fields, environ=dict(env or {}), folder=cwd)
        except ClusterError as error:
            process.close()
            raise OSError(str(error)) from error
        process.begin(pid)
        return process

    # Access ----------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The server's address."""
        return f"https://{self.address}:{self.port}"

    @property
    def ca(self) -> str:
        """Path of the CA's certificate."""
        return os.path.join(self.folder, "tls", "ca.crt")

    def token(self, *rules: str, account: str = "agent", namespace: str = "default", token: str | None = None) -> str:
        """A bearer token of a service account that may do this: rules are "VERB RESOURCE [NAME,NAME…]"; none: all."""
        token = token or secrets.token_urlsafe(24)
        user = f"system:serviceaccount:{namespace}:{account}"
        bound = namespace if rules else None
        self._ask("token", token=token, name=user, rules=list(rules or ("*",)), namespace=bound)
        return token

    def account_token(self, account: str, namespace: str = "default") -> str:
        """A token of a ServiceAccount that may do what RoleBindings in the cluster give it."""
        return str(self._ask("api.kubelet.node.issue_token", account=account, namespace=namespace))

    def revoke(self, token: str) -> None:
        """Refuse a token from now on (401)."""
        self._ask("api.access.revoke_token", token=token)

    def kubeconfig(self, token: str | None = None) -> str:
        """Write a kubeconfig in JSON form (kubectl reads it too), by default with a new token; return its path."""
        return write_kubeconfig(self.folder, self.url, self.ca, token or self.token())

    def environ(self, token: str | None = None, namespace: str = "default") -> dict[str, str]:
        """The variables of an agent that runs "in the cluster", with its service account's folder."""
        token = token or self.token(namespace=namespace)
        return {
            "KUBERNETES_SERVICE_HOST": self.address,
            "KUBERNETES_SERVICE_PORT": str(self.port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(self.port),
            "MPI_AGENT_SERVICE_ACCOUNT": write_service_account(self.folder, token, self.ca, namespace),
        }

    # Faults ----------------------------------------------------------------------------------------------------------

    def fault(self, kind: str, **fields: Any) -> None:
        """Set a fault: kinds and fields are those of faults.py (`on`, `pod`, `times`, `status`, …)."""
        self._ask("api.faults.add", kind=kind, **fields)

    def clear_faults(self) -> None:
        """No more faults."""
        self._ask("api.faults.clear")

    def cut_streams(self, pod: str) -> int:
        """Reset the open exec streams of a pod. Returns how many."""
        return int(self._ask("cut_streams", pod=pod))

    def watches(self, what: str, data: bytes = b"") -> int:
        """Do to the open watches what is said: cut, end, expire (410), raw (send `data`). Returns how many."""
        return int(self._ask("watches", kind=what, data=data))

    def suspend(self) -> None:
        """Stop the server's process: connections are taken by the kernel, and nothing answers. Until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a suspended server."""
        self._signal(signal.SIGCONT)

    def listen(self, *, on: bool) -> None:
        """Refuse new connections (off), as when the API server restarts, or take them again on the same port (on)."""
        self._ask("listener.open" if on else "listener.close")

    def cut(self) -> int:
        """Reset every connection, whatever happens on it; with `listen(on=False)`, an outage. Returns how many."""
        return int(self._ask("cut"))

    def _signal(self, number: int) -> None:
        if self._server is not None:
            self._server.signal(number)

    # What was seen ---------------------------------------------------------------------------------------------------

    def stats(self) -> Object:
        """Counters: see counters.py. `requests` by kind (exec, list, get, watch, review, discovery)."""
        return self._ask("stats")  # type: ignore[no-any-return]

    def changes(self, after: int, keys: Sequence[str]) -> list[tuple[str, str, Object]]:
        """The changes of some kinds after a version, in order: the kind's key, ADDED, MODIFIED or DELETED, the object.

        Each object has its own version; the log of changes reaches back some thousand of them.
        """
        return self._ask("changes", after=after, keys=list(keys))  # type: ignore[no-any-return]

    def reset_stats(self) -> None:
        """Start the counters again at 0."""
        self._ask("api.counters.reset")

    def processes(self) -> Object:
        """Process ids of the server's helpers: `zygote`, `shims`."""
        return self._ask("processes")  # type: ignore[no-any-return]

    def until(self, condition: Callable[[Object], object], timeout_s: float = 30.0) -> Object:
        """Wait until the counters meet a condition, and return them. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while True:
            stats = self.stats()
            if condition(stats):
                return stats
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {timeout_s:g} s; the counters are {stats}")
            time.sleep(0.01)

    def _ask(self, what: str, fds: Sequence[int] = (), **fields: Any) -> Any:
        if self._server is None:
            raise ClusterError("the stand-in is not running")
        return self._server.send({"do": what, **fields}, fds)


__all__ = ["Cluster", "ClusterError"]
