"""What the caches keep of each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.kinds import (
    BATCH_JOB,
    CONFIG_MAP,
    MPI_JOB_V1,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    VOLCANO_POD_GROUP,
    Kind,
)
from agents.operator.trim import Outline, shortened, trim, written

METADATA = {
    "name": "pi-worker-0",
    "namespace": "team",
    "uid": "u-1",
    "resourceVersion": "7",
    "generation": 1,
    "selfLink": "/x",
    "labels": {"mpi-agents/job-uid": "j-1", "app": "pi"},
    "annotations": {"mpi-agents/template": "abc", "cni.projectcalico.org/podIP": "10.0.0.1"},
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-01T00:10:00Z",
    "deletionGracePeriodSeconds": 30,
    "finalizers": ["x"],
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    "ownerReferences": [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "MPIJob",
            "name": "pi",
            "uid": "j-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
}
KEPT = {
    "name": "pi-worker-0",
    "namespace": "team",
    "uid": "u-1",
    "resourceVersion": "7",
    "labels": {"mpi-agents/job-uid": "j-1"},
    "annotations": {"mpi-agents/template": "abc"},
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-01T00:10:00Z",
    "deletionGracePeriodSeconds": 30,
    "ownerReferences": [{"kind": "MPIJob", "name": "pi", "uid": "j-1", "controller": True}],
}


def test_a_pod() -> None:
    terminated = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:05:00Z", "containerID": "c://1"}
    pod = {
        "metadata": METADATA,
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "mpi", "image": "pi:1", "env": [{"name": "A", "value": "b"}]}],
            "initContainers": [{"name": "hub", "image": "agents:1", "restartPolicy": "Always"}, {"name": "wait"}],
            "volumes": [{"name": "v"}],
        },
        "status": {
            "phase": "Running",
            "reason": "",
            "qosClass": "BestEffort",
            "hostIP": "10.0.0.2",
            "podIP": "10.0.0.3",
            "startTime": "2026-01-01T00:01:00Z",
            "conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "m", "lastProbeTime": None}],
            "containerStatuses": [
                {
                    "name": "mpi",
                    "ready": False,
                    "started": False,
                    "restartCount": 2,
                    "image": "pi:1",
                    "imageID": "sha256:1",
                    "containerID": "c://2",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": terminated},
                    "volumeMounts": [{"name": "v"}],
                }
            ],
        },
    }
    assert trim(POD, pod) == {
        "metadata": KEPT,
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "mpi"}],
            "initContainers": [{"name": "hub", "restartPolicy": "Always"}, {"name": "wait"}],
        },
        "status": {
            "phase": "Running",
            "reason": "",
            "podIP": "10.0.0.3",
            "startTime": "2026-01-01T00:01:00Z",
            "conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "m"}],
            "containerStatuses": [
                {
                    "name": "mpi",
                    "ready": False,
                    "started": False,
                    "restartCount": 2,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {
                        "terminated": {
                            "exitCode": 137,
                            "reason": "OOMKilled",
                            "finishedAt": "2026-01-01T00:05:00Z",
                        }
                    },
                }
            ],
        },
    }
    assert terminated["containerID"] == "c://1"  # what was given is not changed


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        (CONFIG_MAP, {"data": {"hostfile": "a"}, "immutable": True}, {"data": {"hostfile": "a"}}),
        (ROLE, {"rules": [{"verbs": ["get"]}]}, {"rules": [{"verbs": ["get"]}]}),
        (SERVICE, {"spec": {"clusterIP": "None"}, "status": {}}, {}),
        (
            BATCH_JOB,
            {"spec": {"suspend": True, "template": {"spec": {}}}, "status": {"active": 1}},
            {"spec": {"suspend": True}, "status": {"active": 1}},
        ),
        (
            BATCH_JOB,
            {
                "spec": {
                    "template": {"spec": {"volumes": [{"name": "data"}, {"name": "mpi-job-config", "configMap": {}}]}}
                }
            },
            {"spec": {"suspend": False, "template": {"spec": {"volumes": [{"name": "mpi-job-config"}]}}}, "status": {}},
        ),
        (VOLCANO_POD_GROUP, {"spec": {"minMember": 3}, "status": {"phase": "x"}}, {"spec": {"minMember": 3}}),
    ],
    ids=lambda given: given.name if isinstance(given, Kind) else "",
)
def test_other_kinds(kind: Kind, body: dict[str, Any], kept: dict[str, Any]) -> None:
    assert trim(kind, {"metadata": METADATA, **body}) == {"metadata": KEPT, **kept}


def test_an_mpi_job_is_kept_but_for_who_wrote_what_and_kubectl_s_copy() -> None:
    writer = {"manager": "mpi-agents", "operation": "Update", "apiVersion": "kubeflow.org/v1", "subresource": "status"}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {
            "name": "pi",
            "generation": 3,
            "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{…}"},
            "managedFields": [{**writer, "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {"slotsPerWorker": 2, "anything": [1]},
        "status": {"conditions": []},
    }
    assert trim(MPI_JOB_V1, job) == {
        **job,
        "metadata": {"name": "pi", "generation": 3, "annotations": {"a": "b"}, "managedFields": [writer]},
    }


NAMES = (
    *("metadata", "spec", "status", "annotations", "ownerReferences", "managedFields", "containers", "conditions"),
    *("containerStatuses", "state", "lastState", "terminated", "data", "rules"),
)
PARTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.sampled_from([POD, MPI_JOB_V1, BATCH_JOB, CONFIG_MAP, ROLE, SERVICE]),
    st.dictionaries(st.sampled_from(NAMES), PARTS),
)
def test_anything_can_be_trimmed(kind: Kind, body: dict[str, Any]) -> None:
    before = repr(body)
    assert isinstance(trim(kind, body)["metadata"], dict)
    assert repr(body) == before


def large_job(**metadata: Any) -> dict[str, Any]:
    env = [{"name": f"V{index}", "value": "x"} for index in range(1000)]
    given = {
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"mpi-agents/adopt": "true", "app": "pi"},
        "annotations": {"mpi-agents/transport": "ssh", "note": "n" * 9000},
        "managedFields": [{"manager": "mpi-agents", "operation": "Update", "subresource": "status", "fieldsV1": {}}],
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "team", "uid": "u", "resourceVersion": "7", **given, **metadata},
        "spec": {"runPolicy": {"managedBy": "x", "suspend": True}, "mpiReplicaSpecs": {"Worker": {"template": env}}},
        "status": {"conditions": [{"type": "Created", "status": "True"}]},
    }


def test_of_a_large_job_its_outline() -> None:
    found = trim(MPI_JOB_V1, large_job())
    assert isinstance(found, Outline)
    assert len(found.pop("rest")) == 64
    assert found == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {
            "name": "pi",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"mpi-agents/adopt": "true"},
            "annotations": {"mpi-agents/transport": "ssh"},
            "managedFields": [{"manager": "mpi-agents", "operation": "Update", "subresource": "status"}],
        },
        "spec": {"runPolicy": {"managedBy": "x"}},
        "status": {"conditions": [{"type": "Created", "status": "True"}]},
    }
    assert trim(MPI_JOB_V1, found) is found


@pytest.mark.parametrize(
    ("part", "value", "differs"),
    [
        ("resourceVersion", "8", False),
        ("managedFields", [], False),
        ("labels", {"app": "other"}, True),
        ("annotations", {"note": "other"}, True),
        ("deletionTimestamp", "2026-01-01T00:00:00Z", True),
    ],
)
def test_an_outline_tells_what_has_changed_of_what_it_leaves_out(part: str, value: Any, differs: bool) -> None:
    before, after = (trim(MPI_JOB_V1, large_job(**change)) for change in ({}, {part: value}))
    assert (before["rest"] != after["rest"]) is differs
    body = large_job()
    body["spec"]["mpiReplicaSpecs"]["Worker"]["template"][999]["value"] = "y"
    assert trim(MPI_JOB_V1, body)["rest"] != before["rest"]


def test_the_outline_of_a_job_whose_status_was_written_is_that_of_the_watch() -> None:
    outline = trim(MPI_JOB_V1, large_job())
    assert isinstance(outline, Outline)
    answer = large_job(resourceVersion="8")["metadata"]
    after = large_job(resourceVersion="8") | {"status": {"conditions": []}}
    assert written(outline, answer, {"conditions": []}) == trim(MPI_JOB_V1, after)


def test_of_a_long_text_in_a_config_map_its_hash() -> None:
    long = "pi-worker-0\n" * 10_000
    found = trim(CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"hostfile": long, "short": "x"}})
    assert found["data"] == shortened({"hostfile": long, "short": "x"})
    assert found["data"]["short"] == "x"
    assert len(found["data"]["hostfile"]) == 64
    assert found["data"] != shortened({"hostfile": f"{long}pi-worker-1\n", "short": "x"})


@pytest.mark.parametrize("depth", [100, 900, 980, 20_000])
def test_a_job_that_is_nested_deeply_is_trimmed_like_any_other(depth: int) -> None:
    value: Any = []
    for _ in range(depth):
        value = [value]
    found = trim(MPI_JOB_V1, {"metadata": {"name": "pi", "generation": 1}, "spec": {"x": value}})
    assert found["metadata"]["name"] == "pi"


MANY = {f"mpi-agents/{index}": "" for index in range(20_000)}


@pytest.mark.parametrize("kind", [POD, BATCH_JOB, CONFIG_MAP, ROLE, ROLE_BINDING, SERVICE, SECRET])
def test_what_a_tenant_puts_into_an_object_with_our_label_is_not_kept(kind: Kind) -> None:
    owners = [{"kind": "MPIJob", "name": "pi", "uid": "j-1"} for _ in range(10_000)]
    labels = {**MANY, "app": "x" * 9000, "mpi-agents/job-uid": "j-1"}
    body = {"metadata": {"name": "c", "labels": labels, "annotations": MANY, "ownerReferences": owners}, "data": MANY}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}] * 10_000
    found = trim(kind, {**body, "rules": rules, "subjects": rules})
    assert len(json.dumps(found)) < 10_000
    assert found["metadata"]["labels"]["mpi-agents/job-uid"] == "j-1"


@pytest.mark.parametrize("large", [False, True])
def test_a_large_status_is_not_kept(*, large: bool) -> None:
    """Who may edit jobs may write it, too."""
    conditions = [{"type": "Created", "status": "True", "message": "m" * 1000} for _ in range(1000)]
    job = large_job() if large else {**large_job(labels={}, annotations={}), "spec": {}}
    assert isinstance(trim(MPI_JOB_V1, job), Outline) is large
    before = trim(MPI_JOB_V1, {**job, "status": {"conditions": conditions}})
    assert isinstance(before, Outline)
    assert len(json.dumps(before)) < 3000
    assert before["status"]["conditions"][0] == {"type": "Created", "status": "True"}
    after = trim(MPI_JOB_V1, {**job, "status": {"conditions": conditions[1:]}})
    assert after["status"] != before["status"]
    assert written(before, before["metadata"], {"conditions": conditions})["status"] == before["status"]
