"""A job opens no pod that is not its own, whatever a tenant calls its pods."""

from __future__ import annotations

import functools
import time
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

_AGAIN_S = 180.0  # a name that another has is tried again each minute


def stateful_set(name: str) -> Object:
    """A StatefulSet of one pod."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": MpiJob().worker}
    spec = {"replicas": 1, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_has_no_rights_to_a_pod_of_another(namespace: Namespace, submit: Submit, version: str) -> None:
    """Of a StatefulSet whose pod is called as a worker of the job would be."""

    may_exec = functools.partial(namespace.may_exec, "airflow-launcher", "airflow-worker-0")
    namespace.apply([stateful_set("airflow-worker")])
    namespace.wait_ready(["airflow-worker-0"])
    uid = namespace.uid("airflow-worker-0")
    job = submit(MpiJob(version, name="airflow"))
    job.until_condition("ErrResourceExists")
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert not may_exec()
        assert job.launcher == ""
    assert namespace.uid("airflow-worker-0") == uid
    namespace.delete("StatefulSet", "airflow-worker", api_version="apps/v1")
    assert job.verdict(_AGAIN_S) == "Succeeded", job.output
    until("its rights have ended", lambda: not may_exec(), _AGAIN_S)
