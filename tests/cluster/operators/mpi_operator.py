"""kubeflow's mpi-operator, as it had the v1 MPIJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.operators.operator import NAMESPACE, Operator
from tests.cluster.operators.programs import MPI_OPERATOR

if TYPE_CHECKING:
    from tests.cluster.operators.operator import Object


class MpiOperator(Operator):
    """The controller for v1 jobs of kubeflow's mpi-operator, in the last release that has one."""

    program = MPI_OPERATOR
    example = "tensorflow-benchmarks"
    _lock = ("Endpoints", "v1", "mpi-operator", NAMESPACE)

    def _arguments(self) -> list[str]:
        return ["-alsologtostderr", f"-lock-namespace={NAMESPACE}"]

    def _delivery_flag(self) -> str:
        return "-kubectl-delivery-image="

    def _is_ready(self) -> bool:
        return "Started workers" in self.log()

    def _change(self, definition: Object) -> None:
        # Stored as v2beta1, whose schema would drop fields of v1.
        definition["spec"]["versions"] = [one for one in definition["spec"]["versions"] if one["name"] == "v1"]
        definition["spec"]["versions"][0]["storage"] = True

    def _release(self) -> None:
        self.remove(*self._lock)  # else the next instance waits until this one's lease is over
