"""kubeflow's mpi-operator: as it had the v1 MPIJob, and as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.operators.operator import Operator
from tests.cluster.operators.programs import MPI_OPERATOR, MPI_OPERATOR_V2

if TYPE_CHECKING:
    from tests.cluster.operators.operator import Object


class MpiOperator(Operator):
    """The controller for v1 jobs of kubeflow's mpi-operator, in the last release that has one."""

    program = MPI_OPERATOR
    example = "tensorflow-benchmarks"

    def _arguments(self) -> list[str]:
        return ["-alsologtostderr", f"-lock-namespace={self.namespace}"]

    def _image_arguments(self, delivery_image: str) -> list[str]:
        return [f"-kubectl-delivery-image={delivery_image}"]

    def _is_ready(self) -> bool:
        return "Started workers" in self.log()

    def _change(self, definition: Object) -> None:
        # Stored as v2beta1, whose schema would drop fields of v1.
        definition["spec"]["versions"] = [one for one in definition["spec"]["versions"] if one["name"] == "v1"]
        definition["spec"]["versions"][0]["storage"] = True

    def _release(self) -> None:
        # Else the next instance waits until this one's lease is over.
        self.remove("Endpoints", "v1", "mpi-operator", self.namespace)


class MpiOperatorV2(Operator):
    """The mpi-operator of v2beta1 jobs, by ssh: it delivers nothing, and knows of no image for that."""

    program = MPI_OPERATOR_V2

    def _arguments(self) -> list[str]:
        return [f"-lock-namespace={self.namespace}"]

    def _image_arguments(self, delivery_image: str) -> list[str]:
        return []

    def _is_ready(self) -> bool:
        lease = self.api.find(self.path(*self._lease())) or {}
        return bool(lease.get("spec", {}).get("holderIdentity"))

    def _release(self) -> None:
        self.remove(*self._lease())

    def _lease(self) -> tuple[str, str, str, str]:
        return "Lease", "coordination.k8s.io/v1", "mpi-operator", self.namespace
