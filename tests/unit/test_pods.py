"""What matters of a pod, and what its state means for a session in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common import pods
from agents.common.pods import ContainerState, Pod


def raw_pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "worker-0",
            "uid": "u1",
            "labels": {"b": "2", "a": "1"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "spec": {"nodeName": "node-7", "containers": [{"name": "main"}, {"name": "sidecar"}]},
        "status": {"phase": "Running", **status},
    }


def container(name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "restartCount": 0, "ready": True, "state": {"running": {"startedAt": "…"}}, **more}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def test_a_pod_that_runs() -> None:
    pod = pods.parse(
        raw_pod(
            **READY,
            podIP="10.0.0.1",
            podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            containerStatuses=[container(), container("sidecar", ready=False)],
            initContainerStatuses=[container("init", state={"terminated": {"exitCode": 0, "reason": "Completed"}})],
        )
    )
    assert pod == Pod(
        name="worker-0",
        uid="u1",
        phase="Running",
        ready=True,
        deleting=False,
        ips=("10.0.0.1", "fd00::1"),
        reason="",
        message="",
        unscheduled="",
        unscheduled_reason="",
        node="node-7",
        main_container="main",
        containers=(
            ContainerState("init", True, "terminated", "Completed", "", 0, 0, True, "", None),
            ContainerState("main", False, "running", "", "", None, 0, True, "", None, started_at="…"),
            ContainerState("sidecar", False, "running", "", "", None, 0, False, "", None, started_at="…"),
        ),
        labels=(("a", "1"), ("b", "2")),
        created="2026-01-02T03:04:05Z",
        size=2,
    )


@pytest.mark.parametrize(
    ("phase", "condition", "ready"),
    [("Running", "True", True), ("Running", "False", False), ("Running", "Unknown", False), ("Failed", "True", False)],
)
def test_ready_is_the_condition_of_a_pod_that_runs(phase: str, condition: str, ready: bool) -> None:
    assert pods.parse(raw_pod(phase=phase, conditions=[{"type": "Ready", "status": condition}])).ready is ready


def test_a_pod_that_has_no_node() -> None:
    said = "0/12 nodes are available: 12 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    pod = pods.parse(raw_pod(phase="Pending", conditions=[condition]))
    assert (pod.unscheduled, pod.unscheduled_reason) == (said, "Unschedulable")
    scheduled = pods.parse(raw_pod(conditions=[condition | {"status": "True"}]))
    assert (scheduled.unscheduled, scheduled.unscheduled_reason) == ("", "")


def test_a_container_that_was_restarted() -> None:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "too much"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    pod = pods.parse(raw_pod(containerStatuses=[container(restartCount=3, lastState=last, state=waiting)]))
    state = pod.container(None)
    assert state is not None
    assert (state.state, state.reason, state.message) == ("waiting", "CrashLoopBackOff", "back-off 5m0s")
    assert (state.restarts, state.last_reason, state.last_exit_code) == (3, "OOMKilled", 137)
    assert state.last_message == "too much"


def test_the_main_container_is_the_annotated_one_or_the_first() -> None:
    raw = raw_pod(containerStatuses=[container("sidecar"), container("main")])
    pod = pods.parse(raw)
    assert pod.container(None) == pod.container("main")
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "sidecar"}
    pod = pods.parse(raw)
    assert pod.container(None) == pod.container("sidecar")
    assert pod.container("nothing-like-it") is None


def test_an_init_container_is_never_meant() -> None:
    pod = pods.parse(raw_pod(initContainerStatuses=[container("main")]))
    assert pod.container("main") is None


def ended(exit_code: int, reason: str = "Error") -> dict[str, Any]:
    return container(state={"terminated": {"exitCode": exit_code, "reason": reason}})


BEFORE = raw_pod(**READY, containerStatuses=[container()])
REPLACED = {**BEFORE, "metadata": {"name": "worker-0", "uid": "u2"}}
OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}

ENDS: list[tuple[dict[str, Any] | None, tuple[str, int] | None]] = [
    (BEFORE, None),
    (raw_pod(containerStatuses=[container(ready=False)]), None),
    (raw_pod(containerStatuses=[]), None),
    (raw_pod(phase="Unknown"), None),
    ({**BEFORE, "metadata": {**BEFORE["metadata"], "deletionTimestamp": "…"}}, None),  # it has its grace period
    (None, ("the pod was deleted", 255)),
    (REPLACED, ("the pod was replaced by a new pod of the same name", 255)),
    (raw_pod(phase="Failed", reason="Evicted"), ("the pod has ended (Failed: Evicted)", 255)),
    (raw_pod(phase="Failed", containerStatuses=[ended(3)]), ("the pod has ended (Failed)", 3)),
    (
        raw_pod(phase="Failed", containerStatuses=[ended(137, "OOMKilled")]),
        ("the pod has ended (Failed, OOMKilled)", 137),
    ),
    # The container's success is none of the session's.
    (raw_pod(phase="Succeeded", containerStatuses=[ended(0)]), ("the pod has ended (Succeeded)", 255)),
    (raw_pod(containerStatuses=[ended(137, "OOMKilled")]), ("its container main exited with 137 (OOMKilled)", 137)),
    (raw_pod(containerStatuses=[ended(0, "")]), ("its container main exited with 0", 255)),
    (
        raw_pod(containerStatuses=[container(restartCount=1, lastState=OOM)]),
        ("its container main was restarted (OOMKilled)", 137),
    ),
    (
        raw_pod(containerStatuses=[container(restartCount=1)]),
        ("its container main was restarted (no reason given)", 255),
    ),
    # Another container is another matter.
    (raw_pod(containerStatuses=[container(), ended(1) | {"name": "sidecar"}]), None),
]


@pytest.mark.parametrize(("now", "expected"), ENDS)
def test_why_a_session_can_not_run_any_more(now: dict[str, Any] | None, expected: tuple[str, int] | None) -> None:
    found = pods.why_ended(pods.parse(BEFORE), None if now is None else pods.parse(now), None)
    assert found == expected


def test_an_old_restart_is_no_new_one() -> None:
    before = pods.parse(raw_pod(containerStatuses=[container(restartCount=2, lastState=OOM)]))
    assert pods.why_ended(before, before, None) is None


KEYS = [
    "metadata", "spec", "status", "name", "uid", "phase", "conditions", "type", "message", "reason", "podIPs", "ip",
    "podIP", "containers", "containerStatuses", "initContainerStatuses", "state", "lastState", "terminated", "waiting",
    "exitCode", "restartCount", "ready", "annotations", "labels", "deletionTimestamp",
]  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["True", "Running", "Failed", ""])
INNER = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
ANY = st.dictionaries(st.sampled_from(KEYS), INNER, max_size=5)
PODS = st.fixed_dictionaries({"metadata": ANY, "spec": ANY, "status": ANY}) | ANY


@given(raw=PODS, later=PODS)
def test_any_object_is_a_pod(raw: dict[str, Any], later: dict[str, Any]) -> None:
    pod, then = pods.parse(raw), pods.parse(later)
    for text in (pod.name, pod.uid, pod.phase, pod.reason, pod.message, pod.unscheduled, pod.node, pod.main_container):
        assert isinstance(text, str)
    assert hash(pod) == hash(pods.parse(raw))
    found = pods.why_ended(pod, then, None)
    assert found is None or 0 < found[1] <= 255
