"""What a job has to be when everything has settled: what its spec asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulated_cluster import PLURALS, Cluster

from agents.job.read import read
from agents.operator import objects
from agents.operator.observed import Observed
from agents.operator.plan import plan

if TYPE_CHECKING:
    from simulated_operator import SimulatedOperator

    from agents.job.model import Job

Body = dict[str, Any]


def true_of(body: Body) -> set[str]:
    """The conditions that are True."""
    found = body.get("status", {}).get("conditions", [])
    return {one["type"] for one in found if one["status"] == "True"}


def check(operator: SimulatedOperator, *, has_ended: bool, has_foreign: bool) -> None:
    """`has_foreign`: someone else has a name that the job wants, and waiting for it was cut short."""
    api, cluster = operator.api, Cluster(operator.api)
    body = api.find("mpijobs", operator.name)
    if body is None:
        assert [one for plural in PLURALS for one in api.all(plural) if one["metadata"].get("ownerReferences")] == []
        return
    job = read(body)
    if isinstance(job, tuple):
        assert "ValidationError" in true_of(body) or has_ended
        return
    if has_ended:
        assert has_foreign or job.policy.ttl_s is None  # it would be over
        _check_ended(cluster, body, job)
    elif job.policy.is_suspended:
        assert "Suspended" in true_of(body)
        assert "Running" not in true_of(body)
        assert cluster.pods("launcher") == cluster.pods("worker") == api.all("jobs") == api.all("podgroups") == []
    elif has_foreign:
        assert "Created" in true_of(body)
    else:
        _check_running(operator, cluster, body, job)
    assert plan(
        job, Observed({**body, "status": {}}), operator.settings, api.now
    ).steps  # nothing but its status stops it


def _check_ended(cluster: Cluster, body: Body, job: Job) -> None:
    workers, launchers = cluster.pods("worker"), cluster.pods("launcher")
    for pod in launchers:
        own = [one for one in pod["status"].get("containerStatuses", []) if one["name"] == "mpi"]
        assert pod["status"]["phase"] in ("Succeeded", "Failed") or all("terminated" in one["state"] for one in own)
    if job.policy.clean_pods == "Running":
        assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in workers + launchers)
    if job.policy.clean_pods == "All":
        assert workers == launchers == cluster.api.all("jobs") == []
    if job.policy.clean_pods != "None":
        assert cluster.api.all("podgroups") == []
    assert "completionTime" in body["status"]


def _check_running(operator: SimulatedOperator, cluster: Cluster, body: Body, job: Job) -> None:
    assert job.policy.active_deadline_s is None  # it would be over
    wanted = [job.worker_name(index) for index in range(job.worker.replicas)]
    workers = {pod["metadata"]["name"]: pod for pod in cluster.pods("worker")}
    assert sorted(workers) == sorted(wanted)
    assert {pod["status"]["phase"] for pod in workers.values()} == {"Running"}
    (launcher,) = cluster.pods("launcher", "Running")
    assert "running" in launcher["status"]["containerStatuses"][0]["state"]
    assert true_of(body) >= {"Created", "Running", "WorkersReady"}
    assert not true_of(body) & {
        "ErrResourceExists",
        "ValidationError",
        "CreationRefused",
        "Suspended",
        "LauncherWaiting",
    }
    assert body["status"]["readyWorkers"] == f"{job.worker.replicas}/{job.worker.replicas}"
    config, role = cluster.api.find("configmaps", job.config_name), cluster.api.find("roles", job.launcher_name)
    assert config is not None
    assert role is not None
    assert config["data"] == objects.config_map(job, operator.settings, range(job.worker.replicas))["data"]
    assert role["rules"][-1]["resourceNames"] == wanted
    if job.worker_update == "RollingUpdate":
        current = objects.template_hash(job.worker)
        assert {pod["metadata"]["annotations"]["mpi-agents/template"] for pod in workers.values()} == {current}
