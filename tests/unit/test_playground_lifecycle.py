"""Pods that are created through the stand-in's API and run as processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from raw_api import STDOUT, RawExec, request

from agents.playground import Cluster
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CORE = "/api/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default/jobs"
PATIENCE_S = 30.0
FOR_EVER = ["sleep", "1000"]
Pod = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def ask(cluster: Cluster, method: str, path: str, body: Any = None) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    answer, found = request(cluster, path, cluster.token(), method=method, body=data)
    assert answer.status < 300, found
    return json.loads(found)


def create(cluster: Cluster, name: str, *containers: Any, inits: Any = (), **spec: Any) -> None:
    body = {
        "metadata": {"name": name},
        "spec": {"containers": list(containers), "initContainers": list(inits), **spec},
    }
    ask(cluster, "POST", f"{CORE}/pods", body)


def container(command: list[str] | str, name: str = "main", **more: Any) -> Pod:
    words = ["sh", "-c", command] if isinstance(command, str) else command
    return {"name": name, "image": "none", "command": words, **more}


def when(cluster: Cluster, name: str, condition: Callable[[Pod], object]) -> Pod:
    def found() -> Pod | None:
        pod: Pod = cluster.pod(name)
        return pod if condition(pod) else None

    return until(found, lambda: f"{name} is {cluster.pod(name)['status']}", PATIENCE_S)


def ended(pod: Pod) -> bool:
    return pod["status"]["phase"] in {"Succeeded", "Failed"}


def is_ready(pod: Pod) -> bool:
    return any((one["type"], one["status"]) == ("Ready", "True") for one in pod["status"].get("conditions", ()))


def log(cluster: Cluster, pod: str, name: str = "main") -> str:
    answer, data = request(cluster, f"{CORE}/pods/{pod}/log?container={name}", cluster.token())
    assert answer.status == 200, data
    return data.decode()


def test_init_containers_come_in_turn_and_sidecars_stay(cluster: Cluster) -> None:
    shared = [{"name": "shared", "mountPath": "/opt/shared"}]
    inits = [
        container("echo 1 >> $DIR/order", "first"),
        container(FOR_EVER, "side", restartPolicy="Always"),
        container("echo 2 >> $DIR/order", "second"),
    ]
    for one in inits:
        one |= {"env": [{"name": "DIR", "value": "/opt/shared"}], "volumeMounts": shared}
    main = container("cat /opt/shared/order", volumeMounts=shared)
    create(cluster, "order", main, inits=inits, restartPolicy="Never", volumes=[{"name": "shared", "emptyDir": {}}])
    pod = when(cluster, "order", ended)
    assert pod["status"]["phase"] == "Succeeded", log(cluster, "order")
    assert log(cluster, "order") == "1\n2\n"
    states = {one["name"]: one["state"]["terminated"]["exitCode"] for one in pod["status"]["initContainerStatuses"]}
    assert states == {"first": 0, "side": 143, "second": 0}


def test_a_failing_init_container_fails_the_pod(cluster: Cluster) -> None:
    create(cluster, "init-fails", container("true"), inits=[container("exit 4", "bad")], restartPolicy="Never")
    status = when(cluster, "init-fails", ended)["status"]
    assert status["phase"] == "Failed"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert "waiting" in status["containerStatuses"][0]["state"]


@pytest.mark.parametrize(
    ("policy", "restarts"),
    [("Never", 0), ("OnFailure", 1), ("Always", 1)],
)
def test_restart_policies(cluster: Cluster, policy: str, restarts: int) -> None:
    name = f"restarts-{policy.lower()}"
    create(cluster, name, container("exit 3"), restartPolicy=policy)

    def waits(pod: Pod) -> bool:
        reason = first(pod)["state"].get("waiting", {}).get("reason")
        return bool(first(pod)["restartCount"] > restarts and reason == "CrashLoopBackOff")

    pod = when(cluster, name, ended if policy == "Never" else waits)
    if restarts:
        assert first(pod)["lastState"]["terminated"]["exitCode"] == 3
        assert first(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    else:
        assert first(pod)["state"]["terminated"] == first(pod)["state"]["terminated"] | {
            "exitCode": 3,
            "reason": "Error",
        }


def first(pod: Pod) -> Pod:
    statuses: list[Pod] = pod["status"]["containerStatuses"]
    return statuses[0]


def test_what_can_not_be_started(cluster: Cluster) -> None:
    create(cluster, "no-program", container(["no-such-program"]), restartPolicy="Never")
    state = first(when(cluster, "no-program", ended))["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert "executable file not found" in state["message"]
    create(cluster, "no-volume", container("true"), volumes=[{"name": "x", "nfs": {}}])
    pod = when(cluster, "no-volume", lambda pod: "CreateContainer" in str(pod["status"].get("containerStatuses")))
    assert "no volumes of kind nfs" in first(pod)["state"]["waiting"]["message"]


def test_readiness_is_what_the_probe_says(cluster: Cluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 0.05}
    create(cluster, "probed", container(FOR_EVER, readinessProbe=probe))
    pod = when(cluster, "probed", lambda pod: pod["status"]["phase"] == "Running")
    assert not is_ready(pod)
    with RawExec(cluster, "probed", ["touch", "ready"], token=cluster.token()) as touch:
        touch.finish()
    when(cluster, "probed", is_ready)


def test_config_maps_are_waited_for_and_followed(cluster: Cluster) -> None:
    volume = {"name": "config", "configMap": {"name": "later", "items": [{"key": "k", "path": "f", "mode": 0o555}]}}
    mounts = [{"name": "config", "mountPath": "/etc/mpi"}]
    create(cluster, "waits", container(FOR_EVER, volumeMounts=mounts), volumes=[volume])
    when(cluster, "waits", lambda pod: pod["spec"].get("nodeName"))
    assert cluster.pod("waits")["status"]["phase"] == "Pending"
    made = ask(cluster, "POST", f"{CORE}/configmaps", {"metadata": {"name": "later"}, "data": {"k": "echo 1"}})
    when(cluster, "waits", is_ready)
    if not cluster.mounts:
        pytest.skip("no mount namespaces here")
    assert run(cluster, "waits", ["/bin/sh", "/etc/mpi/f"]) == "1\n"
    ask(cluster, "PUT", f"{CORE}/configmaps/later", {**made, "data": {"k": "echo 2"}})
    assert run(cluster, "waits", ["/bin/sh", "/etc/mpi/f"]) == "2\n"


def test_paths_are_moved_where_mounts_fail(cluster: Cluster) -> None:
    ask(cluster, "POST", f"{CORE}/configmaps", {"metadata": {"name": "moved"}, "data": {"f": "/etc/mpi/f is here"}})
    volumes = [{"name": "config", "configMap": {"name": "moved"}}, {"name": "bad", "hostPath": {"path": "/proc/1/mem"}}]
    # No process can have this file shown in place of a folder: so nothing is mounted.
    mounts = [{"name": "config", "mountPath": "/etc/mpi"}, {"name": "bad", "mountPath": "/tmp/.."}]
    create(cluster, "moved", container("cat /etc/mpi/f", volumeMounts=mounts), volumes=volumes, restartPolicy="Never")
    when(cluster, "moved", ended)
    folder = f"{cluster.pod_folder('moved')}/volumes/config"
    assert log(cluster, "moved") == f"{folder}/f is here"


def run(cluster: Cluster, pod: str, words: list[str]) -> str:
    with RawExec(cluster, pod, words, token=cluster.token()) as process:
        process.finish()
        return process.output[STDOUT].decode()


def test_tokens_are_the_accounts_own_and_for_those_that_mount_them(cluster: Cluster) -> None:
    ask(cluster, "POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "agent"}})
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    create(
        cluster,
        "tokens",
        container("echo ${MPI_AGENT_SERVICE_ACCOUNT-none}", "without"),
        container(
            "cat $MPI_AGENT_SERVICE_ACCOUNT/namespace $MPI_AGENT_SERVICE_ACCOUNT/token", "with", volumeMounts=mounts
        ),
        volumes=[{"name": "token", "projected": {"sources": sources}}],
        restartPolicy="Never",
        serviceAccountName="agent",
    )
    when(cluster, "tokens", ended)
    assert log(cluster, "tokens", "without") == "none\n"
    said = log(cluster, "tokens", "with")
    assert said.startswith("default")
    answer, refused = request(cluster, f"{CORE}/pods", said.removeprefix("default"))
    assert answer.status == 403
    assert 'User "system:serviceaccount:default:agent" cannot list' in json.loads(refused)["message"]


def test_the_end_gives_hooks_and_containers_their_time(cluster: Cluster) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> order"]}}}
    side = container(
        "trap 'echo side >> order; exit 0' TERM; echo up; while :; do sleep 0.01; done",
        "side",
        restartPolicy="Always",
        lifecycle=hook,
    )
    main = container(
        "trap 'until [ -s order ]; do sleep 0.01; done; echo main >> order; exit 0' TERM; echo up; "
        "while :; do sleep 0.01; done"
    )
    create(cluster, "ends", main, inits=[side], terminationGracePeriodSeconds=1000)
    when(cluster, "ends", lambda pod: is_ready(pod) and "up" in log(cluster, "ends") and log(cluster, "ends", "side"))
    folder = cluster.pod_folder("ends")
    told = ask(cluster, "DELETE", f"{CORE}/pods/ends")
    assert (told["kind"], told["metadata"]["deletionGracePeriodSeconds"]) == ("Pod", 1000)
    until_gone(cluster, "ends")
    with open(f"{folder}/home/order", encoding="utf-8") as file:
        assert file.read().split() == ["hook", "main", "side"]


def test_what_comes_after_a_sidecar_waits_for_its_hook(cluster: Cluster) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "until [ -e up ]; do sleep 0.01; done; echo hook > said"]}}}
    side = container("echo > up; exec sleep 1000", "side", restartPolicy="Always", lifecycle=hook)
    create(cluster, "hooked", container("cat said"), inits=[side], restartPolicy="Never")
    when(cluster, "hooked", ended)
    assert log(cluster, "hooked") == "hook\n"


def test_a_hook_that_fails_ends_its_container(cluster: Cluster) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    create(cluster, "unhooked", container(FOR_EVER, lifecycle=hook), restartPolicy="Never")
    pod = when(cluster, "unhooked", ended)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_a_grace_that_is_over_kills(cluster: Cluster) -> None:
    create(cluster, "deaf", container("trap '' TERM; echo up; while :; do sleep 0.01; done"))
    when(cluster, "deaf", lambda pod: is_ready(pod) and log(cluster, "deaf"))
    ask(cluster, "DELETE", f"{CORE}/pods/deaf", {"gracePeriodSeconds": 1000})
    when(cluster, "deaf", lambda pod: "deletionTimestamp" in pod["metadata"])
    ask(cluster, "DELETE", f"{CORE}/pods/deaf?gracePeriodSeconds=0")
    until_gone(cluster, "deaf")


def until_gone(cluster: Cluster, name: str) -> None:
    token = cluster.token()
    until(lambda: request(cluster, f"{CORE}/pods/{name}", token)[0].status == 404, f"{name} is gone")


def test_last_words(cluster: Cluster) -> None:
    create(cluster, "words", container('echo why > "$MPI_AGENT_TERMINATION_LOG"; exit 1'), restartPolicy="Never")
    assert first(when(cluster, "words", ended))["state"]["terminated"]["message"] == "why\n"


def job(command: str, **spec: Any) -> Pod:
    template = {"spec": {"containers": [container(command)], "restartPolicy": "Never"}}
    return {"spec": {"template": template, **spec}}


def conditions(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    return ask(cluster, "GET", f"{BATCH}/{job}").get("status", {}).get("conditions") or []


@pytest.mark.parametrize(("command", "condition"), [("true", "Complete"), ("exit 3", "Failed")])
def test_a_batch_job_has_a_pod_and_an_end(cluster: Cluster, command: str, condition: str) -> None:
    name = condition.lower()
    ask(cluster, "POST", BATCH, {"metadata": {"name": name}, **job(command, backoffLimit=0)})
    (ended,) = until(lambda: conditions(cluster, name), "the Job has ended")
    assert ended["type"] == condition
    pods = ask(cluster, "GET", f"{CORE}/pods?labelSelector=job-name%3D{name}")["items"]
    assert [pod["metadata"]["ownerReferences"][0]["name"] for pod in pods] == [name]


def test_a_suspended_batch_job_has_no_pod(cluster: Cluster) -> None:
    ask(cluster, "POST", BATCH, {"metadata": {"name": "held"}, **job("sleep 1000", suspend=True)})
    until(lambda: conditions(cluster, "held"), "it is said to be suspended")
    pods = f"{CORE}/pods?labelSelector=job-name%3Dheld"
    assert not ask(cluster, "GET", pods)["items"]
    made = ask(cluster, "GET", f"{BATCH}/held")
    ask(cluster, "PUT", f"{BATCH}/held", {**made, "spec": {**made["spec"], "suspend": False}})
    until(lambda: ask(cluster, "GET", pods)["items"], "it has a pod")
