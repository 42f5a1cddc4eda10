"""The stand-in's API for all kinds: what client-go and our operator rest on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from raw_api import connect, receive, request

from agents.playground import Cluster
from tests.waiting import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

V1 = "/apis/kubeflow.org/v1/namespaces/default/mpijobs"
V2BETA1 = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), runs_pods=False) as cluster:
        yield cluster


class User:
    def __init__(self, cluster: Cluster, token: str | None = None) -> None:
        self.cluster = cluster
        self.token = token or cluster.token()

    def ask(self, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        answer, found = request(self.cluster, path, self.token, method=method, body=data, media=media)
        return answer.status, json.loads(found)

    def made(self, path: str, body: Any) -> dict[str, Any]:
        code, thing = self.ask("POST", path, body)
        assert code == 201, thing
        return dict(thing)

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.ask("GET", path)[1]["items"]]

    def until_gone(self, path: str) -> None:
        until(lambda: self.ask("GET", path)[0] == 404, f"{path} is gone")


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def test_a_job_says_which_version_it_was_written_in(user: User) -> None:
    made = user.made(V1, {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "old"}})
    assert (made["apiVersion"], made["spec"]["dialect"], made["metadata"]["generation"]) == ("kubeflow.org/v1", "v1", 1)
    seen = user.ask("GET", f"{V2BETA1}/old")[1]
    assert (seen["apiVersion"], seen["spec"]["dialect"]) == ("kubeflow.org/v2beta1", "v1")
    new = user.made(V2BETA1, {"metadata": {"name": "new"}, "spec": {}, "status": {"conditions": []}})
    assert new["spec"]["dialect"] == "v2beta1"
    assert "status" not in new
    assert user.ask("GET", V1)[1]["items"][0]["apiVersion"] == "kubeflow.org/v1"


def test_status_and_the_rest_are_written_apart(user: User) -> None:
    made = user.made(V1, {"metadata": {"name": "apart"}, "spec": {"slotsPerWorker": 1}})
    status = {**made, "spec": {}, "status": {"conditions": [{"type": "Created"}]}}
    code, told = user.ask("PUT", f"{V1}/apart/status?fieldManager=mpi-agents", status)
    assert (code, told["spec"]["slotsPerWorker"]) == (200, 1)
    assert told["status"]["conditions"] == [{"type": "Created"}]
    assert told["metadata"]["generation"] == 1
    managers = [(one["manager"], one.get("subresource")) for one in told["metadata"]["managedFields"]]
    assert ("mpi-agents", "status") in managers
    code, changed = user.ask("PUT", f"{V1}/apart", {**told, "spec": {"slotsPerWorker": 2}, "status": {}})
    assert (changed["metadata"]["generation"], changed["status"]) == (2, told["status"])


def test_older_writes_are_refused(user: User) -> None:
    made = user.made(MAPS, config_map("raced", a="1"))
    assert user.ask("POST", MAPS, config_map("raced"))[1]["reason"] == "AlreadyExists"
    newer = user.ask("PUT", f"{MAPS}/raced", {**made, "data": {"a": "2"}})[1]
    code, refused = user.ask("PUT", f"{MAPS}/raced", {**made, "data": {"a": "3"}})
    assert (code, refused["reason"]) == (409, "Conflict")
    assert "the object has been modified" in refused["message"]
    stale = {"metadata": {"uid": "another"}, "data": {"a": "4"}}
    code, refused = user.ask("PATCH", f"{MAPS}/raced", stale, "application/merge-patch+json")
    assert (code, refused["reason"]) == (409, "Conflict")
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}
    assert user.ask("DELETE", f"{MAPS}/raced", options)[0] == 409
    assert user.ask("GET", f"{MAPS}/raced")[1] == newer


def test_a_write_that_changes_nothing_is_none(user: User) -> None:
    made = user.made(MAPS, config_map("same", a="1"))
    again = user.ask("PUT", f"{MAPS}/same", made)[1]
    patched = user.ask("PATCH", f"{MAPS}/same", {"data": {"a": "1"}}, "application/merge-patch+json")[1]
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_merge_patches_and_others(user: User) -> None:
    user.made(MAPS, config_map("patched", a="1", b="2"))
    patch = {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"x": "y"}}}
    code, told = user.ask("PATCH", f"{MAPS}/patched", patch, "application/merge-patch+json")
    assert (code, told["data"], told["metadata"]["labels"]) == (200, {"b": "2", "c": "3"}, {"x": "y"})
    plain = {"data": {"d": "4"}}
    assert user.ask("PATCH", f"{MAPS}/patched", plain, "application/strategic-merge-patch+json")[0] == 200
    lists = {"metadata": {"ownerReferences": [{"uid": "x"}]}}
    assert user.ask("PATCH", f"{MAPS}/patched", lists, "application/strategic-merge-patch+json")[0] == 415
    assert user.ask("PATCH", f"{MAPS}/patched", plain, "application/json-patch+json")[0] == 415
    applied = user.ask("PATCH", f"{MAPS}/patched", config_map("patched", e="5"), "application/apply-patch+yaml")
    assert (applied[0], applied[1]["data"]) == (200, {"b": "2", "c": "3", "d": "4", "e": "5"})


@pytest.mark.parametrize(
    ("path", "body", "code", "words"),
    [
        (MAPS, config_map("Upper"), 422, 'ConfigMap "Upper" is invalid'),
        (MAPS, config_map(""), 422, "metadata.name"),
        (MAPS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}, 400, "not v1 ConfigMap"),
        (MAPS, {"metadata": {"name": "x", "namespace": "other"}}, 400, "does not match the namespace"),
        (PODS, {"metadata": {"name": "x"}}, 422, "spec.containers: Required value"),
        (PODS, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a"}]}}, 422, "containers[0].image"),
        (PODS, pod("x") | {"spec": {**pod("x")["spec"], "serviceAccountName": "no"}}, 403, '"no" not found'),
        ("/api/v1/namespaces/default/nodes", {}, 404, "could not find the requested resource"),
    ],
)
def test_what_can_not_be_made(user: User, path: str, body: Any, code: int, words: str) -> None:
    found, refused = user.ask("POST", path, body)
    assert (found, refused["kind"]) == (code, "Status")
    assert words in refused["message"]


def test_what_an_object_owned_goes_with_it(user: User) -> None:
    job = user.made(V1, {"metadata": {"name": "owner"}})
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "owner", "uid": job["metadata"]["uid"]}
    for path, body in ((MAPS, config_map("owned")), (PODS, pod("owned"))):
        user.made(path, {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}})
    user.made(MAPS, config_map("free"))
    code, told = user.ask("DELETE", f"{V1}/owner")
    assert (code, told["status"]) == (200, "Success")
    user.until_gone(f"{MAPS}/owned")
    user.until_gone(f"{PODS}/owned")
    assert user.ask("GET", f"{MAPS}/free")[0] == 200
    late = config_map("late")
    user.made(MAPS, {**late, "metadata": {"name": "late", "ownerReferences": [owner]}})
    user.until_gone(f"{MAPS}/late")


def test_finalizers_hold_an_object(user: User) -> None:
    user.made(MAPS, {"metadata": {"name": "held", "finalizers": ["example.org/x"]}})
    assert "deletionTimestamp" in user.ask("DELETE", f"{MAPS}/held")[1]["metadata"]
    assert user.ask("GET", f"{MAPS}/held")[0] == 200
    user.ask("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    assert user.ask("GET", f"{MAPS}/held")[0] == 404


def test_pods_without_processes_do_as_they_are_told(cluster: Cluster, user: User) -> None:
    made = user.made(PODS, pod("told", labels={"set": "told"}))
    assert made["status"]["phase"] == "Pending"
    until(lambda: cluster.pod("told")["status"]["phase"] == "Running", "it runs")
    cluster.set_state("told", "failed", exit_code=3)
    status = user.ask("GET", f"{PODS}/told")[1]["status"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    code, told = user.ask("DELETE", f"{PODS}?labelSelector=set%3Dtold")
    assert (code, [one["metadata"]["name"] for one in told["items"]]) == (200, ["told"])
    user.until_gone(f"{PODS}/told")


def test_what_roles_allow(cluster: Cluster) -> None:
    admin = User(cluster)
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    account = {"kind": "ServiceAccount", "name": "reader"}
    admin.made("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["seen"]}
    role = admin.made(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    binding = {"metadata": {"name": "reader"}, "subjects": [account], "roleRef": {"kind": "Role", "name": "reader"}}
    admin.made(f"{rbac}/rolebindings", binding)
    for name in ("seen", "hidden"):
        admin.made(MAPS, config_map(name))
    reader = User(cluster, cluster.account_token("reader"))
    assert [reader.ask("GET", f"{MAPS}/{name}")[0] for name in ("seen", "hidden")] == [200, 403]
    assert reader.ask("GET", MAPS)[0] == 403
    code, refused = reader.ask("GET", f"{V1}/seen")
    assert (code, 'in API group "kubeflow.org"' in refused["message"]) == (403, True)
    admin.ask("PUT", f"{rbac}/roles/reader", {**role, "rules": [{**rule, "resourceNames": ["hidden"]}]})
    assert [reader.ask("GET", f"{MAPS}/{name}")[0] for name in ("seen", "hidden")] == [403, 200]


def test_faults_of_writes(cluster: Cluster, user: User) -> None:
    cluster.fault("http", on="create", status=503)
    assert user.ask("POST", MAPS, config_map("unlucky"))[0] == 503
    assert "unlucky" not in user.names(MAPS)
    assert user.ask("POST", MAPS, config_map("lucky"))[0] == 201


def _read_to_the_end(stream: ssl.SSLSocket) -> None:
    while receive(stream):
        pass


def test_an_outage_cuts_what_goes_on(cluster: Cluster, user: User) -> None:
    with connect(cluster) as stream:
        head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {user.token}\r\n\r\n"
        stream.sendall(head.encode())
        cluster.until(lambda stats: stats["watches"] == 1)
        cluster.listen(on=False)
        assert cluster.cut() == 1
        with pytest.raises(ConnectionResetError):
            _read_to_the_end(stream)
    with pytest.raises(ConnectionRefusedError):
        connect(cluster)
    cluster.listen(on=True)
    assert user.ask("GET", MAPS)[0] == 200


def test_each_kind_has_its_own_field_selectors(user: User) -> None:
    about = {"kind": "MPIJob", "name": "pi", "namespace": "default"}
    events = "/api/v1/namespaces/default/events"
    user.made(events, {"metadata": {"name": "of-pi"}, "involvedObject": about, "reason": "MPIJobCreated"})
    user.made(events, {"metadata": {"name": "of-other"}, "involvedObject": {**about, "name": "other"}})
    assert user.names(f"{events}?fieldSelector=involvedObject.name%3Dpi,involvedObject.kind%3DMPIJob") == ["of-pi"]
    assert user.ask("GET", f"{MAPS}?fieldSelector=spec.nodeName%3Dx")[0] == 400
