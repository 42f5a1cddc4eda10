"""Doctor's checks as functions of what the API server has: each is seen to pass and to fail."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import mpijob, read_job

from agents.client.doctor import Check, Group, Level, admission, capacity, cluster, job, ordered, rights
from agents.client.doctor.check import fail, ok, skip, warn
from agents.client.errors import AccessError, ClientError, ForbiddenError, RefusedError, from_api
from agents.client.facts import Facts
from agents.client.model import Explanation, State
from agents.job.json_object import Body
from agents.job.model import Job
from agents.job.read import read
from agents.kube.errors import RejectedError
from agents.kube.kinds import MPI_JOB_T9K, MPI_JOB_V1, MPI_JOB_V2BETA1, Kind

NOW = 1_800_000_000.0


ROLES = ("Launcher", "Worker")


def resource(version: str = "v1", replicas: int = 2, **spec: Any) -> Body:
    changes = {f"spec/mpiReplicaSpecs/{role}/template/spec/containers/0/image": "app:1" for role in ROLES}
    changes |= {f"spec/{name}": value for name, value in spec.items()}
    return mpijob(version, {"metadata/namespace": "hpc", "spec/mpiReplicaSpecs/Worker/replicas": replicas, **changes})


def job_of(workers: int = 2, requests: Body | None = None, **pod: Any) -> Job:
    container = {"name": "mpi", "image": "app:1", "resources": {"requests": requests or {}}}
    body = resource(replicas=workers)
    body["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = {"spec": {"containers": [container], **pod}}
    return read_job(body)


def levels(checks: list[Check]) -> dict[str, str]:
    return {one.name: str(one.level) for one in checks}


def test_checks_are_ordered_by_group_and_then_the_worst_first() -> None:
    given = [
        ok(Group.JOB, "a", ""),
        skip(Group.JOB, "b", ""),
        fail(Group.JOB, "c", "", "do"),
        warn(Group.JOB, "d", "", "do"),
        ok(Group.RIGHTS, "e", ""),
    ]
    assert [one.name for one in ordered(given)] == ["e", "c", "d", "b", "a"]


def test_what_was_read_can_not_forge_a_line() -> None:
    found = fail(Group.JOB, "a", "x\ny\x1b[2J", "z\r")
    assert (found.what, found.remedy) == ("x y?[2J", "z")


@pytest.mark.parametrize("kind", [MPI_JOB_V1, MPI_JOB_T9K])
def test_rights(kind: Kind) -> None:
    groups = rights.needed(kind)
    every = [one for group in groups.values() for one in group]
    assert {one.level for one in rights.checks(kind, every, "hpc")} == {Level.OK}
    found = rights.checks(kind, (), "hpc")
    assert [one.level for one in found] == [Level.FAIL, *[Level.WARN] * (len(groups) - 1)]
    assert f"not allowed in namespace hpc: get {kind.resource}, list" in found[0].what
    assert "get pods/log" in found[0].what
    assert all(one.remedy for one in found)
    review = every[-1].review("hpc")["spec"]["resourceAttributes"]
    assert review == {
        "namespace": "hpc",
        "verb": "create",
        "group": "",
        "resource": "pods",
        "subresource": "exec",
    }


@pytest.mark.parametrize(
    ("served", "wanted", "level", "text"),
    [
        ((), None, Level.FAIL, "knows no MPIJobs"),
        ((MPI_JOB_V1,), None, Level.OK, "kubeflow.org/v1"),
        ((MPI_JOB_V2BETA1, MPI_JOB_V1), MPI_JOB_V1, Level.OK, "kubeflow.org/v2beta1, kubeflow.org/v1"),
        ((MPI_JOB_V2BETA1,), MPI_JOB_V1, Level.FAIL, "`kubectl mpi convert -f FILE --to v2beta1`"),
        ((MPI_JOB_T9K, MPI_JOB_V1), MPI_JOB_V2BETA1, Level.FAIL, "--to v1"),
        ((MPI_JOB_V1,), MPI_JOB_T9K, Level.FAIL, "Install its definition"),
        ((MPI_JOB_T9K,), MPI_JOB_V1, Level.FAIL, "Install its definition"),
    ],
)
def test_definition(served: tuple[Kind, ...], wanted: Kind | None, level: Level, text: str) -> None:
    found = cluster.definition(served, wanted)
    assert found.level is level
    assert text in f"{found.what} {found.remedy}"


@pytest.mark.parametrize(
    ("seen", "has_begun", "level"),
    [
        ({"Lease a/mpi-operator"}, False, Level.OK),
        (frozenset(), True, Level.OK),
        (None, True, Level.OK),
        (None, False, Level.SKIP),
        (frozenset(), False, Level.WARN),
    ],
)
def test_operator(seen: set[str] | None, has_begun: bool, level: Level) -> None:
    assert cluster.operator(seen, has_begun=has_begun).level is level


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"valid": "ok"}),
        ({"slotsPerWorker": 0}, {"valid": "fail"}),
        ({"transprt": "exec"}, {"valid": "ok", "names": "warn"}),
    ],
)
def test_validity(changes: Body, expected: dict[str, str]) -> None:
    assert levels(job.validity(read(resource(**changes)))) == expected


def test_images() -> None:
    body = resource()
    same = read(body)
    body["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = {"spec": {"containers": [{"name": "a", "image": "app:2"}]}}
    other = read(body)
    assert isinstance(same, Job)
    assert isinstance(other, Job)
    assert job.images(same).level is Level.OK
    assert job.images(other).what == "launcher app:1, workers app:2"
    assert job.images(other).level is Level.WARN
    containers = [{"name": "proxy", "image": "envoy"}, {"name": "a", "image": "app:2"}]
    body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"] = {"spec": {"containers": containers}}
    main = read({**body, "spec": {**body["spec"], "mainContainer": "a"}})
    assert isinstance(main, Job)
    assert job.images(main).what == "launcher and workers: app:2"


@pytest.mark.parametrize(
    ("state", "reason", "remedy", "level"),
    [
        (State.RUNNING, "", "", Level.OK),
        (State.RUNNING, "", "Look.", Level.OK),
        (State.RUNNING, "Evicted", "Do.", Level.WARN),
        (State.SUCCEEDED, "", "", Level.OK),
        (State.STARTING, "", "", Level.WARN),
        (State.FAILED, "", "Do.", Level.FAIL),
        (State.BLOCKED, "", "", Level.FAIL),
    ],
)
def test_state(state: State, reason: str, remedy: str, level: Level) -> None:
    found = job.state(Explanation(state, reason, "what", remedy))
    assert found.level is level
    assert found.remedy or level is not Level.FAIL


def pod(name: str, **status: Any) -> Body:
    return {"metadata": {"name": name, "uid": name}, "spec": {"containers": [{"name": "mpi"}]}, "status": status}


READY = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
NO_IMAGE = {"name": "mpi", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}


def test_pods() -> None:
    well = [pod("pi-launcher", **READY), pod("pi-worker-0", **READY), pod("pi-worker-1", **READY)]
    assert levels(job.pods(Facts(resource(), well, NOW))) == {"ready": "ok"}
    ill = [well[0], pod("pi-worker-0", phase="Pending", containerStatuses=[NO_IMAGE])]
    found = job.pods(Facts(resource(), ill, NOW))
    assert levels(found) == {"images": "fail", "ready": "warn"}
    assert "pi-worker-0: container mpi can't get its image (ErrImagePull): not found" in found[0].what
    assert found[0].remedy == "Check the image's name, the registry and the pull secret."
    starts = pod("pi-launcher", phase="Pending", spec={"nodeName": "n"})  # it waits for the workers
    mounts = pod("pi-worker-0", phase="Pending", containerStatuses=[{"name": "mpi", "state": {"waiting": {}}}])
    event = {"reason": "FailedMount", "message": "no secret", "involvedObject": {"uid": "pi-worker-0"}}
    found = job.pods(Facts(resource(replicas=1), [starts, mounts], NOW, [event]))
    assert [(one.level, one.what) for one in found] == [
        (Level.FAIL, "pi-worker-0: can't start (FailedMount): no secret")
    ]
    assert levels(job.pods(Facts(resource(replicas=1), [starts, pod("pi-worker-0", **READY)], NOW))) == {
        "ready": "warn"
    }
    suspended = Facts(resource(runPolicy={"suspend": True}), (), NOW)
    assert levels(job.pods(suspended)) == {"ready": "skip"}


STRICT_ERROR = RefusedError('strict decoding error: unknown field "spec.containers[0].imag"', 400)


@pytest.mark.parametrize(
    ("strict", "lenient", "expected", "text"),
    [
        (None, None, ["ok"], "accepted"),
        (STRICT_ERROR, None, ["ok", "warn"], 'unknown fields are dropped: unknown field "spec.containers[0].imag"'),
        (RefusedError("exceeded quota: small", 403), ..., ["fail"], "have the quota raised"),
        (
            RefusedError('pods "x" is forbidden: violates PodSecurity "restricted:latest": …', 403),
            ...,
            ["fail"],
            "securityContext",
        ),
        (RefusedError("admission webhook denied the request: no", 400), ..., ["fail"], "policy of this cluster"),
        (RefusedError('mpijobs "pi" already exists', 409), ..., ["fail"], "choose another name"),
        (RefusedError("spec.x: Invalid value", 422), ..., ["fail"], "Correct the job"),
        (AccessError('failed calling webhook "x": no endpoints', 500), ..., ["fail"], "webhook is down"),
        (RefusedError('admission webhook "x" does not support dry run', 400), ..., ["skip"], "not tried"),
        (AccessError("the API server failed", 500), ..., ["skip"], "failed"),
        (ForbiddenError('User "x" cannot create resource "pods"', 403), ..., ["skip"], "not tried"),
    ],
)
def test_admission(strict: ClientError | None, lenient: Any, expected: list[str], text: str) -> None:
    found = admission.result("job", strict, strict if lenient is ... else lenient)
    assert [str(one.level) for one in found] == expected
    assert text in " ".join(f"{one.what} {one.remedy}" for one in found)


def test_only_a_missing_right_is_one() -> None:
    denied = 'pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "hpc"'
    assert isinstance(from_api(RejectedError(denied, 403)), ForbiddenError)
    refused = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    assert isinstance(from_api(RejectedError(refused, 403)), RefusedError)


def test_pods_that_are_tried() -> None:
    found = dict(admission.pods(job_of()))
    assert list(found) == ["pod pi-launcher", "pod pi-worker-0"]
    worker = found["pod pi-worker-0"]
    assert worker["metadata"] == {"generateName": "pi-worker-0-", "namespace": "hpc"}
    assert worker["spec"]["restartPolicy"] == "Never"
    assert list(dict(admission.pods(job_of(workers=0)))) == ["pod pi-launcher"]
    assert admission.job_copy(resource())["metadata"] == {"generateName": "pi-"}


def node(name: str = "n1", taints: Any = None, labels: Any = None, unschedulable: Any = False, **amounts: Any) -> Body:
    there = {"cpu": "8", "memory": "16Gi", "pods": "110", **amounts}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {"allocatable": there, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def affinity(operator: str, *values: str) -> Body:
    expression = {"key": "gpu", "operator": operator, "values": [*values]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
SOFT = {**TAINT, "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "workers", "requests", "spec", "level", "text"),
    [
        ([node()], 8, {"cpu": "1"}, {}, Level.OK, "1 of 1 nodes can take one; together 8"),
        ([node()], 9, {"cpu": "1"}, {}, Level.FAIL, "9 are wanted"),
        ([node(), node("n2")], 2, {"cpu": "5"}, {}, Level.OK, "together 2"),
        ([node(pods="1")], 2, {}, {}, Level.FAIL, "together 1"),
        ([node()], 1, {"cpu": "9"}, {}, Level.FAIL, "1 with too little cpu"),
        ([node()], 1, {"memory": "17Gi"}, {}, Level.FAIL, "needs memory 17Gi"),
        ([node()], 1, {"memory": "1.5Gi"}, {}, Level.OK, "needs memory 1536Mi"),
        ([node()], 1, {"nvidia.com/gpu": "1"}, {}, Level.FAIL, "with too little nvidia.com/gpu"),
        ([node(**{"nvidia.com/gpu": "4"})], 2, {"nvidia.com/gpu": "2"}, {}, Level.OK, "needs nvidia.com/gpu 2"),
        ([node(unschedulable=True)], 1, {}, {}, Level.FAIL, "1 cordoned"),
        ([{"metadata": {"name": "n1"}}], 1, {}, {}, Level.FAIL, "1 not ready"),
        ([], 1, {}, {}, Level.FAIL, "there are none"),
        ([node(taints=[TAINT])], 1, {}, {}, Level.FAIL, "untolerated taint gpu=yes"),
        ([node(taints=[SOFT])], 1, {}, {}, Level.OK, ""),
        ([node(taints=[TAINT])], 1, {}, {"tolerations": [{"operator": "Exists"}]}, Level.OK, ""),
        ([node(taints=[TAINT])], 1, {}, {"tolerations": [{"key": "gpu", "value": "yes"}]}, Level.OK, ""),
        ([node(taints=[TAINT])], 1, {}, {"tolerations": [{"key": "gpu", "value": "no"}]}, Level.FAIL, "taint"),
        ([node()], 1, {}, {"nodeSelector": {"gpu": "a100"}}, Level.FAIL, "node selector or affinity"),
        ([node(labels={"gpu": "a100"})], 1, {}, {"nodeSelector": {"gpu": "a100"}}, Level.OK, ""),
        ([node(labels={"gpu": "a100"})], 1, {}, {"affinity": affinity("In", "a100")}, Level.OK, ""),
        ([node(labels={"gpu": "a100"})], 1, {}, {"affinity": affinity("NotIn", "a100")}, Level.FAIL, "affinity"),
        ([node()], 1, {}, {"affinity": affinity("Exists")}, Level.FAIL, "affinity"),
        ([node()], 1, {}, {"affinity": affinity("DoesNotExist")}, Level.OK, ""),
        ([node(labels={"gpu": "4"})], 1, {}, {"affinity": affinity("Gt", "3")}, Level.OK, ""),
        ([node(labels={"gpu": "4"})], 1, {}, {"affinity": affinity("Lt", "3")}, Level.FAIL, "affinity"),
        ([node()], 1, {}, {"nodeName": "n2"}, Level.FAIL, "nodeName"),
    ],
)
def test_nodes(nodes: list[Body], workers: int, requests: Body, spec: Body, level: Level, text: str) -> None:
    found = next(one for one in capacity.nodes(job_of(workers, requests, **spec), nodes) if "workers" in one.name)
    assert (found.level, bool(found.remedy)) == (level, level is Level.FAIL)
    assert text in found.what


@pytest.mark.parametrize(
    ("hard", "used", "level", "text"),
    [
        ({"requests.cpu": "10"}, {"requests.cpu": "2"}, Level.OK, ""),
        ({"requests.cpu": "10"}, {"requests.cpu": "4"}, Level.FAIL, "requests.cpu: 6 left, 8 needed"),
        ({"cpu": "7"}, {}, Level.FAIL, "cpu: 7 left, 8 needed"),
        ({"pods": "2"}, {"pods": "0"}, Level.FAIL, "pods: 2 left, 3 needed"),
        ({"count/pods": "3"}, {}, Level.OK, ""),
        ({"requests.storage": "0"}, {}, Level.OK, ""),
    ],
)
def test_quotas(hard: Body, used: Body, level: Level, text: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {}, "status": {"hard": hard, "used": used}}
    scoped = {"metadata": {"name": "best-effort"}, "spec": {"scopes": ["BestEffort"], "hard": {"pods": "0"}}}
    found = capacity.quotas(job_of(2, {"cpu": "4"}), [quota, scoped], {"launcher": 1, "worker": 2})
    assert levels(found) == {"quota q": str(level)}
    assert text in found[0].what
