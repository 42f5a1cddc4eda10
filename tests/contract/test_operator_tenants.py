"""The operator as a process, beside other operators and beside tenants: for whom it waits, and whose pods it opens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from objects_api import conditions
from operating import LOOKING_OFTEN, Operator, all_succeeded, api, job, job_of, ssh_job, submit, t9k_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from objects_api import ObjectsApi

    from tests.objects import Objects

__all__ = ["api"]

TRAINING = "1ca428e5.training-operator.kubeflow.org"


def lease(name: str, renewed: str = "") -> dict[str, Any]:
    at = renewed or datetime.now(UTC).isoformat()
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 3600, "renewTime": at}}


def deployment(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}


def test_beside_kubeflow_s_operator_only_jobs_that_are_given_are_taken(tmp_path: Path, api: ObjectsApi) -> None:
    given = job("given", managedBy="mpi-agents/operator")
    labelled = job("labelled")
    labelled["metadata"]["labels"] = {"mpi-agents/adopt": "true"}
    with api.objects.changed:
        api.objects.add("leases", "mpi-operator", lease("mpi-operator"))
        for body in (job("plain"), given, labelled):
            api.objects.add("mpijobs", "team", body)
    with Operator(tmp_path, api.port) as operator:
        api.wait(all_succeeded(["given", "labelled"]))
        assert operator.terminate() == 0
    assert "another operator for MPIJobs is running: Lease mpi-operator/mpi-operator" in operator.said()
    assert conditions(job_of(api.objects, "plain")) in ([], ["OtherOperator"])
    with Operator(tmp_path, api.port, "--namespace", "team", name="limited"):  # who says where, has seen to the rest
        api.wait(all_succeeded(["plain"]))


@pytest.mark.parametrize(
    ("face", "seen", "name"),
    [
        (job, "leases", TRAINING),
        (job, "deployments", "training-operator"),
        (ssh_job, "deployments", "mpi-operator"),
        (t9k_job, "leases", "mpi-agents-operator"),  # a second operator of ours, whose lease is older than ours
    ],
)
def test_a_job_that_is_left_says_so_and_starts_when_the_other_operator_has_gone(
    tmp_path: Path, api: ObjectsApi, face: Callable[[str], dict[str, Any]], seen: str, name: str
) -> None:
    with api.objects.changed:
        api.objects.add(seen, "kubeflow", lease(name) if seen == "leases" else deployment(name))
    with Operator(tmp_path, api.port, "--lease-namespace", "zz", program=LOOKING_OFTEN):
        submit(api, "left", faces=[face])
        api.wait(lambda objects: conditions(job_of(objects, "left")) == ["OtherOperator"], 30)
        kind = "Lease" if seen == "leases" else "Deployment"
        found = job_of(api.objects, "left")["status"]["conditions"]
        (said,) = [one["message"] for one in found if one["type"] == "OtherOperator"]
        assert f"{kind} {name} in namespace kubeflow" in said
        assert not api.objects.select("pods", "", "")
        with api.objects.changed:
            api.objects.remove((seen, "kubeflow", name))
        api.wait(all_succeeded(["left"]))
        assert "OtherOperator" not in str(job_of(api.objects, "left")["status"])


def test_what_is_written_of_jobs_suits_training_operator_s_definition(tmp_path: Path, api: ObjectsApi) -> None:
    """By which a status is never empty: also of what is invalid, or begins suspended, and in dry runs."""
    with Operator(tmp_path, api.port) as operator:
        for body in (job("plain"), job("still", suspend=True), job("bad", ttlSecondsAfterFinished=-1)):
            with api.objects.changed:
                api.objects.add("mpijobs", "team", body)
        api.wait(all_succeeded(["plain"]))
        api.wait(lambda objects: "Suspended" in conditions(job_of(objects, "still")))
        api.wait(lambda objects: "ValidationError" in conditions(job_of(objects, "bad")))
    assert "failed:" not in operator.said()


def test_a_tenant_s_lease_and_deployment_stop_no_job(tmp_path: Path, api: ObjectsApi) -> None:
    with api.objects.changed:
        for namespace in ("team", "kubeflow-team"):
            for name in ("mpi-operator", TRAINING, "mpi-agents-operator"):
                api.objects.add("leases", namespace, lease(name, "2099-01-01T00:00:00.000000Z"))
            for name in ("mpi-operator", "training-operator"):
                api.objects.add("deployments", namespace, deployment(name))
        api.objects.add("leases", "kubeflow", lease("mpi-operator", "2099-01-01T00:00:00.000000Z"))
    with Operator(tmp_path, api.port) as operator:
        submit(api, "one", "two", "three")
        api.wait(all_succeeded(["one", "two", "three"]))
    assert "another operator" not in operator.said()


def test_namespaces_that_an_administrator_names_count_alone(tmp_path: Path, api: ObjectsApi) -> None:
    with api.objects.changed:
        api.objects.add("deployments", "kubeflow", deployment("mpi-operator"))
        api.objects.add("deployments", "platform", deployment("mpi-operator"))
    for number, words in enumerate(("platform,other", "")):
        with Operator(
            tmp_path, api.port, "--no-leader-elect", f"--other-operator-namespace={words}", name=f"operator-{number}"
        ) as operator:
            if words:
                operator.wait_until_said("another operator for MPIJobs is running: Deployment platform/mpi-operator")
            else:
                submit(api, "one")
                api.wait(all_succeeded(["one"]))
            assert "kubeflow/" not in operator.said()


def names_of(objects: Objects) -> set[str]:
    """The pods that the Roles in force let launchers exec into."""
    bound = {one["roleRef"]["name"] for one in objects.select("rolebindings", "", "")}
    roles = [one for one in objects.select("roles", "", "") if one["metadata"]["name"] in bound]
    return {name for one in roles for rule in one["rules"] for name in rule.get("resourceNames", [])}


def foreign(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}, "spec": {"containers": [{"name": "scheduler"}]}}


def test_rights_follow_the_pods_of_a_job_and_end_with_it(tmp_path: Path, api: ObjectsApi) -> None:
    """A worker is lost, and another takes its name before it can be created again, even with this job's label."""
    api.may_end = lambda _launcher: is_over
    is_over = False
    both = {"pi-worker-0", "pi-worker-1"}
    with Operator(tmp_path, api.port):
        with api.objects.changed:
            api.objects.add("mpijobs", "team", job("pi", cleanPodPolicy="None"))
        api.wait(lambda objects: names_of(objects) == both and objects.select("pods", "", "mpi-agents/role=launcher"))
        with api.objects.changed:
            worker = api.objects.at(("pods", "team", "pi-worker-1"))
            api.objects.put("pods", worker, "DELETED")
            api.objects.add("pods", "team", foreign("pi-worker-1", labels=worker["metadata"]["labels"]))
        api.wait(lambda objects: names_of(objects) == {"pi-worker-0"})
        with api.objects.changed:
            api.objects.put("pods", api.objects.at(("pods", "team", "pi-worker-1")), "DELETED")
            body = api.objects.at(("mpijobs", "team", "pi"))
            body["metadata"]["generation"], body["spec"]["slotsPerWorker"] = 2, 2  # edited: tried again
            api.objects.put("mpijobs", body, "MODIFIED")
        api.wait(lambda objects: names_of(objects) == both)
        is_over = True
        with api.objects.changed:
            api.objects.put("pods", api.objects.at(("pods", "team", "pi-worker-0")), "MODIFIED")
        api.wait(all_succeeded(["pi"]))
        api.wait(lambda objects: not any(role["rules"] for role in objects.select("roles", "", "")))
        assert len(api.objects.select("pods", "", "mpi-agents/role=worker")) == 2
