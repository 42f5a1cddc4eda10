"""What a job has to be when everything has settled: what its spec asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulated_cluster import PLURALS, Cluster, controller, make_of, role
from simulated_job import RESUMED, is_t9k, is_virtual

from agents.job.read import read
from agents.job.run_mode import WAIT, effective
from agents.job.status import conditions_of
from agents.operator import objects
from agents.operator.plan import plan
from agents.operator.planning.view import Observed

if TYPE_CHECKING:
    from stepped_operator import SteppedOperator

    from agents.job.model import Job

Body = dict[str, Any]


def true_of(body: Body) -> set[str]:
    """The conditions that are True, by kubeflow's types."""
    return {one["type"] for one in conditions_of(body) if one["status"] == "True"}


def check(operator: SteppedOperator, jobs: str, *, has_ended: bool, has_foreign: bool, is_mistaken: bool) -> None:
    """`jobs`: plural. `has_foreign`: someone else has a name that the job wants, and waiting for it was cut short.

    `is_mistaken`: it was planned without its launcher being known, so the status may not tell how that was made.
    """
    api, cluster = operator.api, Cluster(operator.api)
    body = api.find(jobs, "pi")
    if body is None:
        assert [one for plural in PLURALS for one in api.all(plural) if one["metadata"].get("ownerReferences")] == []
        return
    job = read(_as_made(cluster, body))
    if not isinstance(job, tuple):
        _check_rights(cluster, body, has_ended=has_ended or job.policy.is_suspended)
    if isinstance(job, tuple):
        assert "ValidationError" in true_of(body) or has_ended
        return
    if is_t9k(body):
        _check_face(cluster, body)
    if has_ended:
        assert has_foreign or job.policy.ttl_s is None  # it would be over
        _check_ended(cluster, body, job)
    elif job.policy.is_suspended:
        assert "Suspended" in true_of(body)
        assert "Running" not in true_of(body)
        assert cluster.pods("launcher") == cluster.pods("worker") == api.all("jobs") == api.all("podgroups") == []
    elif has_foreign:
        assert "Created" in {one["type"] for one in conditions_of(body)}  # T9k's is not True until all is there
    else:
        _check_running(operator, cluster, body, job, is_mistaken=is_mistaken)
    assert plan(
        job, Observed({**body, "status": {}}), operator.settings, api.now
    ).steps  # nothing but its status stops it


def _check_rights(cluster: Cluster, body: Body, *, has_ended: bool) -> None:
    """A launcher that has ended has none, and no other has any to a pod that is not this job's."""
    found = cluster.api.find("roles", f"{body['metadata']['name']}-{'login' if is_virtual(body) else 'launcher'}")
    if found is None or controller(found) != body["metadata"]["uid"]:
        return
    own = {pod["metadata"]["name"] for pod in cluster.pods("worker") if controller(pod) == body["metadata"]["uid"]}
    assert {name for one in found["rules"] for name in one.get("resourceNames", [])} <= own
    over = ("Succeeded", "Failed")
    if has_ended and all(pod["status"]["phase"] in over for pod in cluster.pods("launcher")):
        assert found["rules"] == []


def _as_made(cluster: Cluster, body: Body) -> Body:
    """The job with the transport, dialect and port of its pods, which it keeps while there are any."""
    annotations = dict(body["metadata"].get("annotations", {}))
    for pod in filter(role, cluster.pods()):
        annotations |= {f"mpi-agents/{setting}": value for setting, value in make_of(pod).items()}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def _check_ended(cluster: Cluster, body: Body, job: Job) -> None:
    workers, launchers = cluster.pods("worker"), cluster.pods("launcher")
    for pod in launchers:
        main = job.main_container or "mpi"
        own = [one for one in pod["status"].get("containerStatuses", []) if one["name"] == main]
        assert pod["status"]["phase"] in ("Succeeded", "Failed") or all("terminated" in one["state"] for one in own)
    if job.policy.clean_pods == "Running":
        assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in workers + launchers)
    if job.policy.clean_pods == "All":
        assert workers == []
        assert is_t9k(body) or launchers == cluster.api.all("jobs") == []  # T9k's is kept for its log
    if job.policy.clean_pods != "None":
        assert cluster.api.all("podgroups") == []
    assert "completionTime" in body["status"]


def _check_running(operator: SteppedOperator, cluster: Cluster, body: Body, job: Job, *, is_mistaken: bool) -> None:
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
    ready = "readyNodes" if is_virtual(body) else "readyWorkers"
    assert body["status"][ready] == f"{job.worker.replicas}/{job.worker.replicas}"
    config = cluster.api.find("configmaps", job.config_name)
    assert config is not None
    addresses = [] if not is_virtual(body) else [workers[name]["status"]["podIP"] for name in wanted]
    data = objects.config_map(job, operator.settings, range(job.worker.replicas), addresses=addresses)["data"]
    assert config["data"] == data
    annotations = body["metadata"].get("annotations", {})
    settings = {"transport": str(job.transport), "dialect": str(job.dialect)}
    if job.transport == "ssh":
        settings["ssh-port"] = str(job.ssh.port or "")
    given = {key: value for key in settings if (value := annotations.get(f"mpi-agents/{key}"))}
    if is_t9k(body) or is_virtual(body):
        given.pop("dialect", "")
    is_kept = any(value != settings[key] for key, value in given.items())
    outdated = [one["reason"] for one in conditions_of(body) if one["type"] == "WorkersOutdated"]
    assert ("SettingsKept" in outdated) is is_kept
    _check_way_in(cluster, job, wanted, str(launcher["spec"].get("serviceAccountName")), has_changed=bool(given))
    _check_commands(body, job, list(workers.values()), launcher, is_mistaken=is_mistaken)
    if job.worker_update == "RollingUpdate":
        was_paused = any(one["type"] == "Suspended" for one in conditions_of(body))
        current = objects.template_hash(effective(job, is_resumed=was_paused).worker)
        assert {pod["metadata"]["annotations"]["mpi-agents/template"] for pod in workers.values()} == {current}


def _check_way_in(cluster: Cluster, job: Job, workers: list[str], account: str, *, has_changed: bool) -> None:
    """By exec the launcher has rights, by ssh keys and no rights."""
    role, secret = cluster.api.find("roles", job.launcher_name), cluster.api.find("secrets", job.secret_name)
    if job.transport == "exec":
        assert role is not None
        assert role["rules"][-1]["resourceNames"] == workers
        binding = cluster.api.find("rolebindings", job.launcher_name)
        assert binding is not None
        assert [one["name"] for one in binding["subjects"]] == [account]
        assert has_changed or secret is None
        return
    rights = [one for plural in ("roles", "rolebindings", "serviceaccounts") for one in cluster.api.all(plural)]
    assert [one for one in rights if one["metadata"].get("ownerReferences")] == []
    assert secret is not None
    assert secret["data"]


def _check_commands(body: Body, job: Job, workers: list[Body], launcher: Body, *, is_mistaken: bool) -> None:
    """What resumeSpecs say holds from the first resume on; a launcher waits if it was made in debug mode."""
    found = {one["type"]: one for one in conditions_of(body)}
    assert is_mistaken or ("Debugging" in found) is (job.debug is not None or "Debugging" in true_of(body))
    waits = "Debugging" in true_of(body) or is_virtual(body)
    assert is_mistaken or (_main(job, launcher).get("command", [])[-3:] == list(WAIT)) is waits
    if "runMode" in body["spec"] and "debug" in body["spec"]["runMode"]:
        return  # some may be of the time when it was debugged
    is_resumed = "Suspended" in found and bool(job.resume)
    assert all((_main(job, pod).get("command") == RESUMED) is is_resumed for pod in workers)


def _main(job: Job, pod: Body) -> Body:
    name = job.main_container or "mpi"
    (found,) = (one for one in pod["spec"]["containers"] if one["name"] == name)
    return dict(found)


def _phase(pod: Body) -> str:
    """A pod's phase; it counts as ended when its program has, whatever else still runs in it."""
    phase = str(pod["status"]["phase"])
    ended = [
        one["state"]["terminated"] for one in pod["status"].get("containerStatuses", ()) if "terminated" in one["state"]
    ]
    if phase != "Running" or not ended:
        return phase
    return "Failed" if any(one["exitCode"] for one in ended) else "Succeeded"


def _check_face(cluster: Cluster, body: Body) -> None:
    """T9k's status tells of the pods as they are."""
    status = body.get("status", {})
    if "tasks" not in status:
        assert true_of(body) & {"ValidationError"}
        return
    key = "replicas" if "replicaSpecs" in body["spec"] else "status"
    told = {one["uid"]: one["phase"] for task in status["tasks"] for one in task[key]}
    real = {one["metadata"]["uid"]: _phase(one) for one in cluster.pods("worker") + cluster.pods("launcher")}
    wanted = read(body)
    if not isinstance(wanted, tuple):
        assert {uid: phase for uid, phase in told.items() if phase != "Deleted"} == real
        names = {wanted.worker_name(index) for index in range(wanted.worker.replicas)}
        surplus = [pod for pod in cluster.pods("worker") if pod["metadata"]["name"] not in names]
        assert sum(status["aggregate"].values()) == len(names) + 1 + len(surplus)
    assert status["aggregate"]["deleted"] == list(told.values()).count("Deleted")
    true = true_of(body)
    phases = {"Succeeded": "Succeeded", "Failed": "Failed", "Suspended": "Paused", "Running": "Running"}
    expected = next((phase for condition, phase in phases.items() if condition in true), status["phase"])
    assert status["phase"] == expected
