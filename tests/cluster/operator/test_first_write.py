"""A client that creates a job and then updates what it got meets no other version, as kubeflow's own tests expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release


@pytest.mark.parametrize("is_suspended", [True, False])
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_job_is_updated_as_it_was_created(
    release: Release, namespace: Namespace, version: str, *, is_suspended: bool
) -> None:
    path = f"/apis/kubeflow.org/{version}/namespaces/{namespace.name}/mpijobs"
    for number in range(5):
        job = MpiJob(version, name=f"pi-{number}")
        job.policy["suspend"] = is_suspended
        made = namespace.api.call("post", path, job.body)
        listed = [pod for pod in namespace.pods() if pod["metadata"]["name"].startswith(f"{job.name}-")]
        assert not (is_suspended and listed)
        made["spec"]["runPolicy"]["suspend"] = not is_suspended
        updated = namespace.api.call("put", f"{path}/{job.name}", made)  # refused if there is another version
        assert updated["metadata"]["generation"] == 2
        namespace.api.call("delete", f"{path}/{job.name}")
