"""Jobs as their users write them, whoever runs them. Pure, except for reading files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Self

Object = dict[str, Any]

ONE_MACHINE = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "I_MPI_PIN": "0",
}
"""All workers share one machine's few cores: ranks are bound to none of them, and let each other run while they wait.
"""


WAITS = ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
"""What a container runs that waits, and ends when it is told to."""


def objects_of(file: Path) -> list[Object]:
    """The objects of a file of YAML."""
    # Through JSON: what YAML shares by anchors must not change together.
    return [json.loads(json.dumps(one)) for one in yaml.safe_load_all(file.read_text())]


def object_of(file: Path) -> Object:
    """The one object of a file of YAML."""
    (found,) = objects_of(file)
    return found


def set_environ(container: Object, values: Mapping[str, str]) -> None:
    """Set variables of a container; its others stay."""
    kept = [one for one in container.get("env", []) if one["name"] not in values]
    container["env"] = kept + [{"name": name, "value": value} for name, value in values.items()]


class Launching:
    """A job whose user writes what the launcher runs. Methods change it in place."""

    @property
    def main(self) -> Object:
        """The user's container in the launcher pod, where mpirun runs."""
        raise NotImplementedError

    def command(self, *words: str) -> Self:
        """Let the launcher run this."""
        self.main["command"] = [*words]
        self.main.pop("args", None)
        return self

    def gated(self) -> Self:
        """Have the launcher wait for the file /tmp/go before it does what it was to do."""
        wait = 'until [ -e /tmp/go ]; do sleep 0.05; done; exec "$@"'
        return self.command("/bin/sh", "-c", wait, "sh", *self.main["command"])

    def environ(self, values: Mapping[str, str]) -> Self:
        """Set variables of the launcher's container."""
        set_environ(self.main, values)
        return self


class WrittenJob(Launching):
    """A resource that our operator runs, of any kind: `body` is what is applied."""

    body: Object

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.body["metadata"]["name"])

    @property
    def version(self) -> str:
        """The version that it is written by, without the group."""
        return str(self.body["apiVersion"]).rpartition("/")[2]

    @property
    def spec(self) -> Object:
        """The job's spec: changes to it count."""
        spec: Object = self.body["spec"]
        return spec

    @property
    def replicas(self) -> int:
        """How many workers it asks for."""
        raise NotImplementedError

    @property
    def workers(self) -> list[str]:
        """The worker pods' names."""
        return [f"{self.name}-worker-{number}" for number in range(self.replicas)]


class KubeflowJob(WrittenJob):
    """An MPIJob of kubeflow's, of either version."""

    @property
    def launcher(self) -> Object:
        """The launcher pod's spec, as far as the user writes it."""
        return self._pod("Launcher")

    @property
    def worker(self) -> Object:
        """The worker pods' spec, as far as the user writes it."""
        return self._pod("Worker")

    @property
    def main(self) -> Object:
        main: Object = self.launcher["containers"][0]
        return main

    @property
    def replicas(self) -> int:
        return int(self.spec["mpiReplicaSpecs"]["Worker"]["replicas"])

    def _pod(self, role: str) -> Object:
        spec: Object = self.spec["mpiReplicaSpecs"][role]["template"]["spec"]
        return spec
