"""By which version of kubeflow's group what is made names its MPIJob."""

from __future__ import annotations

from typing import Any

import pytest

from agents.kube.errors import ApiError, NotFoundError, UnavailableError
from agents.kube.kinds import MPI_JOB_V1, MPI_JOB_V2BETA1, Kind
from agents.operator.process import owner_version

V1, V2BETA1 = MPI_JOB_V1.api_version, MPI_JOB_V2BETA1.api_version


class Groups:
    """Answers for kubeflow's group: its preferred version, and the kinds that its versions have."""

    def __init__(self, preferred: str | ApiError, **kinds: list[str]) -> None:
        self.preferred, self.kinds = preferred, kinds

    def get(self, path: str) -> Any:
        if path == "/apis/kubeflow.org":
            if isinstance(self.preferred, ApiError):
                raise self.preferred
            return {"preferredVersion": {"groupVersion": self.preferred}}
        version = path.removeprefix("/apis/kubeflow.org/")
        if version not in self.kinds:
            raise NotFoundError("the server could not find the requested resource", 404)
        return {"resources": [{"name": name} for name in self.kinds[version]]}


@pytest.mark.parametrize(
    ("groups", "read_by", "named_by"),
    [
        (Groups(V1, v1=["mpijobs", "notebooks"], v2beta1=["mpijobs"]), MPI_JOB_V2BETA1, V1),
        # kubeflow's own definition of MPIJobs, beside its Notebooks
        (Groups(V1, v1=["notebooks"], v2beta1=["mpijobs"]), MPI_JOB_V2BETA1, V2BETA1),
        (Groups(V1, v1=["mpijobs"]), MPI_JOB_V1, V1),
        (Groups("kubeflow.org/v2", v1=["mpijobs"]), MPI_JOB_V1, V1),
        (Groups(UnavailableError("no answer"), v2beta1=["mpijobs"]), MPI_JOB_V2BETA1, V2BETA1),
    ],
)
def test_owners_are_named_by_a_version_that_has_them(groups: Groups, read_by: Kind, named_by: str) -> None:
    """The garbage collector never takes what names its owner by another one."""
    assert owner_version(groups, read_by) == named_by  # type: ignore[arg-type]
