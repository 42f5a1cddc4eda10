"""What is planned for a virtual cluster: its nodes and login pod, their replacement, and its own status."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import OURS, START, condition, pod
from mpijobs import job, mpijob

from agents.job.status import has_begun
from agents.operator.actions import Patch
from agents.operator.plan import leave_to_others

Object = dict[str, Any]

LATER = "2023-11-14T22:14:20Z"  # a minute after START
CREATED = condition("Created", "True", "Created", "Virtual cluster default/vc is created.")
RUNNING = condition("Running", "True", "Running", "All pods of virtual cluster default/vc have been running.")
NODES_READY = condition("NodesReady", "True", "NodesReady", "2/2 ready")
LOGIN_READY = condition("LoginReady", "True", "LoginReady", "vc-login is ready")
READY = condition("Ready", "True", "Ready", "the nodes and the login pod are ready")
SETTLED = (READY, NODES_READY, LOGIN_READY, CREATED, RUNNING)
NODES = [pod(f"vc-node-{index}") for index in range(2)]
LOGIN = pod("vc-login")
LOGIN["status"]["conditions"][0]["lastTransitionTime"] = START
DVM = {"spec/dvm": {"enabled": True}}
SELECTOR = "mpi-agents/job-uid=1-2,mpi-agents/role=worker"
FIELDS = {
    "replicas": 2,
    "selector": SELECTOR,
    "observedGeneration": 3,
    "readyNodes": "2/2",
    "loginPod": "vc-login",
    "loginReady": True,
    "loginStartedAt": START,
}


def started_later(name: str) -> Object:
    """A node whose container was started after the login pod was ready."""
    made = pod(name, created=LATER)
    made["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = LATER
    return made


def resource(changes: Object | None = None, *conditions: Object, **status: Any) -> Object:
    """One that has been started, if any conditions are given; further fields of its status by name."""
    made = mpijob("virtual", changes)
    made["metadata"]["resourceVersion"] = "7"
    if conditions:
        made["metadata"]["managedFields"] = OURS
        before = {"startTime": START, "lastReconcileTime": START, **FIELDS}
        made["status"] = {"conditions": list(conditions), **before, **status}
    return made


def settled(changes: Object | None = None, **status: Any) -> Object:
    return resource(changes, *SETTLED, **status)


def hostfiles(found: Any, *hosts: str) -> Object:
    """A ConfigMap whose hostfiles are for these nodes."""
    data = {**found["data"], "hostfile_ip": "".join(f"{host} slots=1\n" for host in hosts)}
    return {**found, "data": data}


def plan(body: Object, *pods: Object, **more: Any) -> Any:
    """All is there, the hostfile by IP as well."""
    seen = plans.observed(body).config_map
    assert seen is not None
    there = [one for one in pods if one["status"]["podIP"] and "node" in one["metadata"]["name"]]
    more.setdefault("config_map", hostfiles(seen, *(one["status"]["podIP"] for one in there)))
    return plans.plan(body, *pods, **more)


def test_nodes_are_made_first_and_the_login_pod_when_they_are_ready() -> None:
    body = resource()
    first = plans.plan(body, **plans.NOTHING)
    assert plans.actions(first, "create Pod") == ["create Pod vc-node-0", "create Pod vc-node-1"]
    waiting = resource(None, CREATED)
    starting = [NODES[0], pod("vc-node-1", "Pending")]
    assert plans.actions(plan(waiting, *starting, config_map=plans.observed(body).config_map), "create") == []
    assert plans.actions(plan(waiting, *NODES), "create") == ["create Pod vc-login"]


def test_hostfiles_by_ip_are_there_before_the_login_pod_and_follow_the_nodes() -> None:
    body = resource(None, CREATED)
    found = plans.plan(body, *NODES)
    (actions,) = [step for step in plans.steps(found) if "patch ConfigMap vc-config" in step]
    assert plans.steps(found).index(actions) < plans.steps(found).index(["create Pod vc-login"])
    changes = [one.body["data"] for step in found.steps for one in step if isinstance(one, Patch)]
    assert [one["hostfile_ip"] for one in changes] == ["10.0.0.1 slots=1\n" * 2]
    data = plans.created(plans.plan(body, **plans.NOTHING))["ConfigMap vc-config"]["data"]
    assert data["hostfile"] == "vc-node-0 slots=1\nvc-node-1 slots=1\n"
    assert (data["hostfile_noslots"], data["hostfile_ip"]) == ("vc-node-0\nvc-node-1\n", "")


def test_nothing_is_left_to_do_for_one_that_is_ready() -> None:
    assert plan(settled(), *NODES, LOGIN).steps == ()


def test_status_of_one_that_becomes_ready() -> None:
    status = plans.status(plan(resource(None, CREATED, loginReady=False), *NODES, LOGIN))
    assert {key: status[key] for key in FIELDS} == FIELDS
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        (kind, "True") for kind in ("Ready", "NodesReady", "LoginReady", "Created", "Running")
    ]


@pytest.mark.parametrize(
    ("nodes", "login", "expected"),
    [
        (
            [NODES[0], pod("vc-node-1", "Pending", node="")],
            LOGIN,
            {
                "NodesReady": ("False", "WaitingForNodes", "1/2 ready · node-1 waiting for a node"),
                "LoginReady": ("True", "LoginReady", "vc-login is ready"),
                "Ready": ("False", "WaitingForNodes", "1/2 ready · node-1 waiting for a node"),
            },
        ),
        (
            NODES,
            pod("vc-login", ready=False, beside=[]),
            {
                "NodesReady": ("True", "NodesReady", "2/2 ready"),
                "LoginReady": ("False", "LoginStarts", "vc-login running, not ready yet"),
                "Ready": ("False", "LoginStarts", "vc-login running, not ready yet"),
            },
        ),
        (
            NODES,
            pod("vc-login", code=1, said="no hosts", ready=False),
            {
                "LoginReady": ("False", "LoginInTrouble", "vc-login container mpi exited with 1: no hosts"),
                "Ready": ("False", "LoginInTrouble", "vc-login container mpi exited with 1: no hosts"),
            },
        ),
        (
            NODES,
            None,
            {"LoginReady": ("False", "WaitingForNodes", "vc-login is created when all nodes are ready")},
        ),
    ],
)
def test_conditions_say_what_is_missing(
    nodes: list[Object], login: Object | None, expected: dict[str, tuple[str, str, str]]
) -> None:
    pods = [*nodes, *([login] if login else [])]
    found = plans.conditions(plan(resource(None, CREATED), *pods))
    assert {kind: found[kind] for kind in expected} == expected


IMAGE = pod("vc-node-1", "Pending")
IMAGE["status"]["containerStatuses"] = [{"name": "mpi", "state": {"waiting": {"reason": "ErrImagePull"}}}]


@pytest.mark.parametrize(
    ("node", "reason"), [(pod("vc-node-1", "Pending", node=""), "WaitingForNodes"), (IMAGE, "ImagePullBackOff")]
)
def test_reasons_survive_being_read_again(node: Object, reason: str) -> None:
    pods = [NODES[0], node]
    before = plans.status(plan(resource(None, CREATED), *pods))
    assert before["conditions"][0]["reason"] == reason
    again = resource(None, *before["conditions"], **{key: before[key] for key in before if key != "conditions"})
    assert plans.plan(again, *pods).steps == ()


@pytest.mark.parametrize("ended", [{"phase": "Succeeded", "code": 0}, {"phase": "Failed", "code": 137}])
def test_a_login_pod_that_has_ended_is_replaced_and_ends_nothing(ended: Object) -> None:
    found = plan(settled(), *NODES, pod("vc-login", **ended))
    assert plans.actions(found, "delete") == ["delete Pod vc-login"]
    told = plans.conditions(found)
    assert {"Succeeded", "Failed"}.isdisjoint(told)
    assert told["Restarting"][2].startswith("The login pod is replaced because it exited: ")
    assert told["Ready"][0] == "False"


def test_a_login_container_that_was_started_again_is_an_event() -> None:
    found = plan(settled(loginStartedAt="2023-11-14T22:00:00Z"), *NODES, LOGIN)
    message = "vc-login was restarted: everything that it had started on the nodes is terminated"
    assert plans.events(found) == [("Warning", "LoginReplaced", message)]
    assert plans.status(found)["loginStartedAt"] == START
    with_dvm = plan(settled(DVM, loginStartedAt="2023-11-14T22:00:00Z", dvmNodes=1), *NODES, LOGIN)
    assert plans.status(with_dvm)["dvmNodes"] == 2
    assert plans.events(with_dvm) == [
        ("Warning", "LoginReplaced", f"{message}. Its DVM is terminated on all nodes and restarted")
    ]


@pytest.mark.parametrize(
    ("pod_is_new", "before", "expected"),
    [(True, 2, 3), (False, 2, 2), (False, 3, 3), (True, None, 3)],
)
def test_a_dvm_has_the_nodes_that_the_hostfile_had_when_it_was_started(
    pod_is_new: bool, before: int | None, expected: int
) -> None:
    """A login container that is started again in its pod may see a hostfile that is older than the newest node."""
    login = pod("vc-login", created="2023-11-14T22:14:30Z" if pod_is_new else START)
    login["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = "2023-11-14T22:14:31Z"
    body = settled({**DVM, "spec/nodes/replicas": 3}, dvmNodes=before)
    found = plan(body, *NODES, started_later("vc-node-2"), login)
    assert plans.status(found)["dvmNodes"] == expected


@pytest.mark.parametrize(
    ("replicas", "nodes", "count", "words"),
    [
        (2, NODES, 2, ""),
        (2, [NODES[0], started_later("vc-node-1")], 2, "2; not in it, or started again since: vc-node-1."),
        (3, NODES, 2, "the 2 nodes of its start, the cluster has 3; not in it, or started again since: vc-node-2."),
        (1, NODES[:1], 2, "the 2 nodes of its start, the cluster has 1. To start it again"),
    ],
)
def test_a_running_dvm_keeps_its_nodes_and_the_status_says_so(
    replicas: int, nodes: list[Object], count: int, words: str
) -> None:
    body = settled({**DVM, "spec/nodes/replicas": replicas}, dvmNodes=count)
    found = plan(body, *nodes, LOGIN)
    said = plans.conditions(found).get("DvmOutdated") if found.steps else None
    if not words:
        assert said is None
        return
    assert said is not None
    status, reason, message = said
    assert (status, reason) == ("True", "NodesChanged")
    assert words in message
    assert message.endswith("kubectl -n default delete pod vc-login")
    settles = resource({**DVM, "spec/nodes/replicas": replicas})
    settles["metadata"]["managedFields"] = OURS
    settles["status"] = plans.status(found)
    again = plan(settles, *nodes, LOGIN)
    assert plans.events(again) == []
    assert again.steps == () or len(nodes) < replicas  # a node is still to be created


def test_what_cannot_be_read_is_not_ready() -> None:
    found = plans.plan(resource({"spec/transport": "rsh"}, CREATED))
    told = plans.conditions(found)
    assert told["ValidationError"][0] == "True"
    assert told["Ready"][:2] == ("False", "ValidationError")
    assert "spec.transport: must be exec or ssh" in told["Ready"][2]


def test_suspending_deletes_the_login_pod_first_and_resuming_creates_all_again() -> None:
    suspended = {"spec/suspend": True}
    first = plan(settled(suspended), *NODES, LOGIN)
    assert plans.actions(first, "delete") == ["delete Pod vc-login"]
    assert plans.conditions(first)["Ready"][:2] == ("False", "Suspended")
    then = plan(resource(suspended, *plans.status(first)["conditions"]), *NODES)
    assert plans.actions(then, "delete") == ["delete all workers"]
    gone = resource(None, *plans.status(then if "write" in plans.steps(then)[0] else first)["conditions"])
    assert plans.actions(plan(gone), "create Pod") == ["create Pod vc-node-0", "create Pod vc-node-1"]


def test_objects_belong_to_the_virtual_cluster() -> None:
    made = plans.created(plans.plan(resource(), **plans.NOTHING))
    for one in made.values():
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"]) == ("mpi-agents.io/v1alpha1", "VirtualCluster")
    node = made["Pod vc-node-0"]
    assert node["metadata"]["labels"] == {
        "mpi-agents/virtual-cluster": "vc",
        "mpi-agents/job-uid": "1-2",
        "mpi-agents/role": "worker",
    }
    assert node["spec"]["hostname"] == "vc-node-0"
    assert node["spec"]["restartPolicy"] == "Always"


def test_events_say_node_and_login_as_the_conditions_do() -> None:
    lost = pod("vc-node-1", "Running", ready=False, code=1)
    found = plan(resource(None, CREATED), NODES[0], lost)
    assert [(kind, reason) for kind, reason, _ in plans.events(found)] == [("Warning", "NodesInTrouble")]


def test_a_cluster_that_is_left_to_another_operator_has_begun_nothing() -> None:
    body = resource()
    left = leave_to_others(job("virtual"), body, ["Lease kubeflow/mpi-operator"], plans.NOW)
    status = plans.status(left)
    assert [one["type"] for one in status["conditions"]] == ["OtherOperator"]
    assert "managedBy" not in status["conditions"][0]["message"]
    assert not has_begun({**body, "status": status})


def test_a_name_that_another_owner_has_stays_reported_until_the_object_is_made() -> None:
    body = resource()
    first = plans.plan(body, name_conflicts=frozenset({("ConfigMap", "vc-config")}), config_map=None)
    message = plans.conditions(first)["ErrResourceExists"][2]
    assert message.endswith("is not managed by VirtualCluster")
    again = resource(None, *plans.status(first)["conditions"])
    later = plans.plan(again, config_map=None)
    assert "ErrResourceExists" in plans.conditions(later)


def test_another_container_that_starts_sooner_or_again_says_nothing_of_the_login() -> None:
    both = {"spec/login": {"template": {"spec": {"containers": [{"name": "mpi"}, {"name": "side"}]}}}}
    login = pod("vc-login")
    login["status"]["conditions"][0]["lastTransitionTime"] = START
    (main,) = login["status"]["containerStatuses"][:1]
    earlier = {"running": {"startedAt": "2023-11-14T22:00:00Z"}}
    login["status"]["containerStatuses"].append({**main, "name": "side", "state": earlier})
    found = plan(settled(both, loginReady=False), *NODES, login)
    assert plans.status(found)["loginStartedAt"] == START


def test_a_resumed_cluster_forgets_the_login_pod_of_before() -> None:
    old = condition("DvmOutdated", "True", "NodesChanged", "")
    suspended = {**DVM, "spec/suspend": True}
    body = resource(suspended, *SETTLED, old, dvmNodes=2)
    status = plans.status(plan(body, *NODES))
    assert {"loginStartedAt", "dvmNodes"}.isdisjoint(status)
    assert "DvmOutdated" not in {one["type"] for one in status["conditions"]}


def test_ssh_in_its_pods_is_configured_for_its_own_names_alone() -> None:
    made = plans.created(plans.plan(resource({"spec/transport": "ssh"}), **plans.NOTHING))
    assert "vc-node-* vc-login*" in str(made["Pod vc-node-0"])
    assert "MPI_SSH_HOSTS" not in str(
        plans.created(plans.plan(mpijob("v2beta1", {"spec/transport": "ssh"}), **plans.NOTHING))
    )
