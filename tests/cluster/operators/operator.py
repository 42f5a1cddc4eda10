"""One of the operators as a process beside the cluster: its kind is defined, it runs, and all of it goes again."""

from __future__ import annotations

import contextlib
import http.client
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.cluster.kube import LABELS
from tests.cluster.local.daemons import Daemon, until
from tests.cluster.local.places import Places
from tests.ports import free_port

if TYPE_CHECKING:
    from tests.cluster.kube import Api
    from tests.cluster.operators.programs import Program

Object = dict[str, Any]

_DEFINITION = ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "mpijobs.kubeflow.org")
NAMESPACE = "default"
_START_S = 120.0


class Operator:
    """An operator. `use` has it run with a delivery image, as who changes the one flag does; `stop` removes it."""

    program: ClassVar[Program]
    example: ClassVar[str]  # an MPIJob with an mpirun, of those in `kubeflow/`

    def __init__(self, api: Api, kubeconfig: str, namespace: str = NAMESPACE) -> None:
        """`namespace`: where it keeps what is its own."""
        self.api, self.namespace = api, namespace
        self._image: str | None = None
        self.health = f"127.0.0.1:{free_port()}"
        folder = Places.of().cache / "operators"
        surroundings = (f"KUBECONFIG={kubeconfig}", f"MY_POD_NAMESPACE={namespace}")
        command = ("env", *surroundings, str(self.program.binary), *self._arguments())
        self._daemon = Daemon(self.program.command, command, folder, folder)

    def use(self, delivery_image: str) -> None:
        """Have it run, with this image for its launchers' init container. Raises SetupError."""
        if self._daemon.pid is None or self._image != delivery_image:
            self._daemon.stop()
            self._release()
            self._daemon.log.unlink(missing_ok=True)
            self._daemon.start(*self._image_arguments(delivery_image))
            self._image = delivery_image
            until(f"{self._daemon.name}'s start", self._is_ready, _START_S, self._daemon)

    def install(self) -> None:
        """Define its kind, and whatever else it wants to be there. Raises SetupError."""
        (definition,) = self.program.kinds()
        self._change(definition)
        definition["metadata"]["labels"] = LABELS
        self.create(definition)
        path = self.path(*_DEFINITION)
        until("the kind's definition", lambda: self.api.is_defined(path), _START_S)

    def stop(self) -> None:
        """End it, and take away all that it brought, its jobs first."""
        self.pause()
        self.remove(*_DEFINITION)

    def pause(self) -> None:
        """End it, and leave what it brought: another operator is to take over."""
        self._daemon.stop()
        self._image = None
        self._release()

    def log(self, since: int = 0) -> str:
        """What it has printed since it started with its present image, or since a `position`."""
        with contextlib.suppress(OSError), self._daemon.log.open(errors="replace") as file:
            file.seek(since)
            return file.read()
        return ""

    # What differs from one to the other -------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _image_arguments(self, delivery_image: str) -> list[str]:
        """The setting that names the delivery image."""
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _change(self, definition: Object) -> None:
        """Change the definition that its module brings, where this cluster wouldn't take it."""

    def _release(self) -> None:
        """Take away what an instance that has ended left for the next one to wait for."""

    # The cluster ------------------------------------------------------------------------------------------------------

    def create(self, one: Object) -> None:
        """Create an object, in place of one that an earlier run of ours left."""
        key = (one["kind"], one["apiVersion"], one["metadata"]["name"], one["metadata"].get("namespace"))
        self.remove(*key)
        self.api.call("post", self.path(*key[:2], None, key[3]), one)

    def remove(self, kind: str, api_version: str, name: str, namespace: str | None = None) -> None:
        self.api.remove(self.path(kind, api_version, name, namespace))

    def path(self, kind: str, api_version: str, name: str | None, namespace: str | None = None) -> str:
        return self.api.path(kind, api_version, name, namespace)


def skip_if_taken(api: Api) -> None:
    """Skip a test where the cluster has an operator for MPIJobs that is not the tests'."""
    if said := taken(api):
        pytest.skip(said)


def taken(api: Api) -> str:
    """Why no operator can be tested here: the cluster has one for MPIJobs already. "" if it has none."""
    kind, api_version, name = _DEFINITION
    found = api.find(api.path(kind, api_version, name))
    if not found or LABELS.items() <= (found["metadata"].get("labels") or {}).items():
        return ""
    return f"the cluster has {name} already: its operator and the one tested here would collide"


def answers(address: str, path: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
