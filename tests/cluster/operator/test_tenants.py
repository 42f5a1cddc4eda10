"""What tenants make in their namespaces: it stops nobody's jobs, and a job opens no pod that is not its own."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.kube import until
from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]
    Object = dict[str, Any]

_LEASES = "coordination.k8s.io/v1"
_FAR = "2099-01-01T00:00:00.000000Z"
_SAID_S = 10  # how soon a job that is left says so
_AGAIN_S = 180.0  # a name that another has is tried again each minute


def lease(name: str, renewed: str) -> Object:
    spec = {"holderIdentity": "theirs", "leaseDurationSeconds": 3600, "renewTime": renewed}
    return {"apiVersion": _LEASES, "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def running(kind: str, name: str) -> Object:
    """A Deployment or StatefulSet of one pod."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": MpiJob().worker}
    spec = {"replicas": 1, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_has_no_rights_to_a_pod_of_another(namespace: Namespace, submit: Submit, version: str) -> None:
    """Of a StatefulSet whose pod is called as a worker of the job would be."""

    def may_exec(pod: str) -> bool:
        account = f"system:serviceaccount:{namespace.name}:airflow-launcher"
        wanted = {"namespace": namespace.name, "verb": "create", "resource": "pods", "subresource": "exec", "name": pod}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        review["spec"] = {"user": account, "resourceAttributes": wanted}  # type: ignore[assignment]
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(namespace.api.call("post", path, review)["status"].get("allowed"))

    namespace.apply([running("StatefulSet", "airflow-worker")])
    namespace.wait_ready(["airflow-worker-0"])
    uid = namespace.get("Pod", "airflow-worker-0")["metadata"]["uid"]
    job = submit(MpiJob(version, name="airflow"))
    job.until_condition("ErrResourceExists")
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert not may_exec("airflow-worker-0")
        assert job.launcher == ""
    assert namespace.get("Pod", "airflow-worker-0")["metadata"]["uid"] == uid
    namespace.delete("StatefulSet", "airflow-worker", api_version="apps/v1")
    assert job.verdict(_AGAIN_S) == "Succeeded", job.output
    until("its rights have ended", lambda: not may_exec("airflow-worker-0"), _AGAIN_S)
