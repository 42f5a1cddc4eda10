"""What the caches keep of each kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.operator.kinds import BATCH_JOB, CONFIG_MAP, MPI_JOB_V1, POD, ROLE, SERVICE, VOLCANO_POD_GROUP, Kind
from agents.operator.trim import trim

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
    "labels": {"mpi-agents/job-uid": "j-1", "app": "pi"},
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
