"""One of the operators as a process beside the cluster: its kind is defined, it runs, and all of it goes again."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import http.client
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import yaml
from kubernetes.dynamic.exceptions import NotFoundError

from tests.cluster.bed.daemons import Daemon, until
from tests.cluster.bed.places import BedError, Places
from tests.cluster.operators.programs import MPI_OPERATOR, TRAINING_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Api
    from tests.cluster.operators.programs import Program

Object = dict[str, Any]

_DEFINITION = ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "mpijobs.kubeflow.org")
_OURS = {"mpi-agents/made-by": "tests"}
_NAMESPACE = "default"  # where it keeps what is its own
_START_S = 60.0


class Operator:
    """An operator. `use` has it run with a delivery image, as who changes the one flag does; `stop` removes it."""

    program: ClassVar[Program]
    container: ClassVar[str] = "kubectl-delivery"  # its init container in a launcher pod

    def __init__(self, api: Api, kubeconfig: str) -> None:
        self._api, self._kubeconfig = api, kubeconfig
        self._image: str | None = None
        self._health = f"127.0.0.1:{_free_port()}"
        folder = Places.of().cache / "operators"
        surroundings = (f"KUBECONFIG={kubeconfig}", f"MY_POD_NAMESPACE={_NAMESPACE}")
        command = ("env", *surroundings, self.program.binary, *self._arguments())
        self._daemon = Daemon(self.program.command, command, folder, folder)

    def use(self, delivery_image: str) -> None:
        """Have it run, with this image for its launchers' init container. Raises BedError."""
        if self._daemon.pid is None or self._image != delivery_image:
            self._daemon.stop()
            self._release()
            self._daemon.log.unlink(missing_ok=True)
            self._daemon.start(self._delivery_flag() + delivery_image)
            self._image = delivery_image
            until(f"{self._daemon.name}'s start", self._is_ready, _START_S, self._daemon)

    def install(self) -> None:
        """Define its kind, and whatever else it wants to be there. Raises BedError."""
        definition: Object = yaml.safe_load((self.program.folder / "crd.yaml").read_text())
        self._change(definition)
        definition["metadata"]["labels"] = _OURS
        self._create(definition)
        path = self._path(*_DEFINITION)
        until("the kind's definition", lambda: _is_established(self._api.call("get", path)), _START_S)

    def stop(self) -> None:
        """End it, and take away all that it brought, its jobs first."""
        self._daemon.stop()
        self._image = None
        self._release()
        self._remove(*_DEFINITION)

    def log(self, since: int = 0) -> str:
        """What it has printed since it started with its present image, or since a `position`."""
        with contextlib.suppress(OSError), self._daemon.log.open(errors="replace") as file:
            file.seek(since)
            return file.read()
        return ""

    # What differs from one to the other ---------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _delivery_flag(self) -> str:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _change(self, definition: Object) -> None:
        """Change the definition that its module brings, where this cluster wouldn't take it."""

    def _release(self) -> None:
        """Take away what an instance that has ended left for the next one to wait for."""

    # The cluster --------------------------------------------------------------------------------------------------------

    def _create(self, one: Object) -> None:
        """Create an object, in place of one that an earlier run of ours left."""
        key = (one["kind"], one["apiVersion"], one["metadata"]["name"], one["metadata"].get("namespace"))
        self._remove(*key)
        self._api.call("post", self._api.path(*key[:2], namespace=key[3]), one)

    def _remove(self, kind: str, api_version: str, name: str, namespace: str | None = None) -> None:
        path = self._path(kind, api_version, name, namespace)
        with contextlib.suppress(NotFoundError):
            self._api.call("delete", path)
            until(f"the end of {kind} {name}", lambda: not self._exists(path), _START_S)

    def _exists(self, path: str) -> bool:
        try:
            self._api.call("get", path)
        except NotFoundError:
            return False
        return True

    def _path(self, kind: str, api_version: str, name: str, namespace: str | None = None) -> str:
        return self._api.path(kind, api_version, name, namespace)


class TrainingOperator(Operator):
    """kubeflow's training-operator, the last one with the v1 MPIJob."""

    program = TRAINING_OPERATOR
    _secret = "training-operator-webhook-cert"
    _webhooks = "validator.training-operator.kubeflow.org"
    _certificates = Path("/tmp/k8s-webhook-server/serving-certs")  # fixed in it

    def _arguments(self) -> list[str]:
        return [
            "--enable-scheme=mpijob",
            f"--health-probe-bind-address={self._health}",
            "--metrics-bind-address=0",
            f"--webhook-server-port={_free_port()}",
            f"--webhook-secret-name={self._secret}",
        ]

    def _delivery_flag(self) -> str:
        return "--mpi-kubectl-delivery-image="

    def install(self) -> None:
        """As for all, and what its certificates are written to; it has no webhook for an MPIJob."""
        super().install()
        shutil.rmtree(self._certificates, ignore_errors=True)
        metadata = {"name": self._secret, "namespace": _NAMESPACE, "labels": _OURS}
        self._create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        webhooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        self._create({**webhooks, "metadata": {"name": self._webhooks, "labels": _OURS}})

    def stop(self) -> None:
        """As for all."""
        super().stop()
        self._remove("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1", self._webhooks)
        self._remove("Secret", "v1", self._secret, _NAMESPACE)
        shutil.rmtree(self._certificates, ignore_errors=True)

    def _is_ready(self) -> bool:
        # In a cluster the kubelet puts the Secret where the operator reads it.
        secret = self._api.call("get", self._path("Secret", "v1", self._secret, _NAMESPACE))
        self._certificates.mkdir(parents=True, exist_ok=True)
        for name, value in (secret.get("data") or {}).items():
            if not (self._certificates / name).exists():
                (self._certificates / name).write_bytes(base64.b64decode(value))
        return _answers(self._health, "/readyz")


class MpiOperator(Operator):
    """The controller for v1 jobs of kubeflow's mpi-operator, in the last release that has one."""

    program = MPI_OPERATOR
    _lock = ("Endpoints", "v1", "mpi-operator", _NAMESPACE)

    def _arguments(self) -> list[str]:
        return ["-alsologtostderr", f"-lock-namespace={_NAMESPACE}"]

    def _delivery_flag(self) -> str:
        return "-kubectl-delivery-image="

    def _is_ready(self) -> bool:
        return "Started workers" in self.log()

    def _change(self, definition: Object) -> None:
        # Stored as v2beta1, whose schema would drop fields of v1.
        definition["spec"]["versions"] = [one for one in definition["spec"]["versions"] if one["name"] == "v1"]
        definition["spec"]["versions"][0]["storage"] = True

    def _release(self) -> None:
        self._remove(*self._lock)  # else the next instance waits until this one's lease is over


@contextlib.contextmanager
def alone(api: Api) -> Iterator[None]:
    """Let one session at a time run operators here. Raises BedError where the cluster has one already."""
    folder = Places.of().cache / "operators"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(NotFoundError):
            kind, api_version, name = _DEFINITION
            found = api.call("get", api.path(kind, api_version, name))
            if not _OURS.items() <= (found["metadata"].get("labels") or {}).items():
                raise BedError(f"the cluster has {name} already: its operator and the one tested here would collide")
        yield


def _is_established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _answers(address: str, path: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
