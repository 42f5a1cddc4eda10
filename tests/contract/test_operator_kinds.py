"""Keys of ssh jobs, and jobs of two kinds side by side: the operator as a process, beside an API server in memory."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING

import pytest
from objects_api import conditions
from operating import LOOKING_OFTEN, PATIENCE_S, Operator, all_succeeded, api, have_been_made, ssh_job, submit, t9k_job

from tests.objects import T9K, Failure
from tests.ports import free_port
from tests.waiting import until
from tests.web import get

if TYPE_CHECKING:
    from pathlib import Path

    from objects_api import ObjectsApi

    from tests.objects import Request

__all__ = ["api"]


def test_two_jobs_of_one_name_do_not_share_their_objects(tmp_path: Path, api: ObjectsApi) -> None:
    """Kubeflow's and T9k's may have one name, and their pods' names would be the same: the first to come has them."""
    ended = threading.Event()
    api.may_end = lambda _launcher: ended.is_set()
    with Operator(tmp_path, api.port) as operator:
        submit(api, "job-0", faces=[ssh_job])
        api.wait(have_been_made(3))
        submit(api, "job-0", faces=[t9k_job])
        operator.wait_until_said("job team/job-0 (batch.tensorstack.dev): record a Warning event (ErrResourceExists)")
        assert "of an earlier job is still being deleted" not in operator.said()
        ended.set()
        api.wait(all_succeeded(["job-0"]))
        api.wait(lambda objects: "ErrResourceExists" in conditions(objects.at((f"mpijobs.{T9K}", "team", "job-0"))))
        first = api.objects.at(("mpijobs", "team", "job-0"))
        pods = [pod for (plural, *_), pod in api.objects.stored.items() if plural == "pods"]
        assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} <= {first["metadata"]["uid"]}


def test_keys_go_into_the_secret_and_nowhere_else(tmp_path: Path, api: ObjectsApi) -> None:
    """Of Secrets nothing but metadata is asked for, and one that is gone comes back with other keys."""

    def fault(request: Request) -> bool:
        if request.plural == "secrets" and not request.partial:
            raise Failure(406, "NotAcceptable", "the whole Secret was asked for")
        return True

    ended, place = threading.Event(), ("secrets", "team", "job-0-ssh")
    api.fault, api.may_end = fault, lambda _launcher: ended.is_set()
    with Operator(tmp_path, api.port, "--log-level", "debug") as operator:
        submit(api, "job-0", faces=[ssh_job])
        api.wait(have_been_made(3))
        first = api.objects.at(place)["data"]
        with api.objects.changed:
            api.objects.remove(place)
        api.wait(lambda objects: place in objects.stored)
        second = api.objects.at(place)["data"]
        ended.set()
        api.wait(all_succeeded(["job-0"]))
        assert operator.terminate() == 0
    keys = [data[name] for data in (first, second) for name in ("ssh-privatekey", "ssh-publickey")]
    assert len(set(keys)) == 4
    assert not [key for key in keys if key in operator.said() or base64.b64decode(key).decode() in operator.said()]
    events = str(api.objects.select("events", "", ""))
    assert not [key for key in keys if key in events]


def test_t9k_s_jobs_are_taken_once_the_api_server_has_them(tmp_path: Path, api: ObjectsApi) -> None:
    missing = f"/apis/{T9K}/v1beta1"
    api.served.remove(missing)
    with Operator(tmp_path, api.port, program=LOOKING_OFTEN) as operator:
        submit(api, "one", faces=[ssh_job])
        api.wait(all_succeeded(["one"]))
        assert ("list", f"mpijobs.{T9K}") not in api.requests
        api.served.add(missing)
        submit(api, "two", faces=[t9k_job])
        api.wait(all_succeeded(["two"]))
        assert "the API server now serves T9k's MPIJobs" in operator.said()


def test_virtual_clusters_are_taken_once_the_api_server_has_them(tmp_path: Path, api: ObjectsApi) -> None:
    template = {"spec": {"containers": [{"name": "mpi", "image": "pi:1"}]}}
    cluster = {
        "apiVersion": "mpi-agents.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": "vc", "namespace": "team"},
        "spec": {"nodes": {"replicas": 2, "template": template}},
    }
    api.may_end = lambda _launcher: False
    with Operator(tmp_path, api.port, program=LOOKING_OFTEN) as operator:
        operator.wait_until_said("the API server does not serve virtualclusters.mpi-agents.io (VirtualClusters)")
        api.served.add("/apis/mpi-agents.io/v1alpha1")
        submit(api, "vc", faces=[lambda _name: cluster])
        api.wait(lambda objects: "Running" in conditions(objects.at(("virtualclusters", "team", "vc"))))
        assert "the API server now serves VirtualClusters" in operator.said()
        api.wait(lambda objects: any(one["reason"] == "Running" for one in objects.select("events")))
        about = {one["involvedObject"]["kind"] for one in api.objects.select("events")}
        assert about == {"VirtualCluster"}


@pytest.mark.parametrize(("t9k", "is_ready"), [("auto", True), ("on", False)])
def test_a_definition_of_t9k_s_that_goes_may_go_unless_it_was_asked_for(
    tmp_path: Path, api: ObjectsApi, t9k: str, is_ready: bool
) -> None:
    port = free_port()
    ready = f"http://127.0.0.1:{port}/readyz"

    def fault(request: Request) -> bool:
        if request.plural == f"mpijobs.{T9K}":
            raise Failure(404, "NotFound", "the server could not find the requested resource")
        return True

    with Operator(tmp_path, api.port, "--t9k", t9k, "--port", str(port)) as operator:
        submit(api, "one", "two", faces=[t9k_job, ssh_job])
        api.wait(all_succeeded(["one", "two"]))
        api.fault = fault
        api.end_watches(forget=True)
        operator.wait_until_said(f"mpijobs.{T9K} can't be watched: the API server has no mpijobs in {T9K}/v1beta1")
        submit(api, "three", faces=[ssh_job])
        api.wait(all_succeeded(["three"]))
        until(
            lambda: get(ready) == (200, "leading\n") if is_ready else "is their CRD installed?" in get(ready)[1],
            "it says what is missing",
            PATIENCE_S,
        )
        api.fault = lambda _request: True
        submit(api, "four", faces=[t9k_job])
        api.wait(all_succeeded(["four"]))
        until(lambda: get(ready) == (200, "leading\n"), "it is ready", PATIENCE_S)


def test_kubeflow_s_jobs_run_where_t9k_s_may_not_be_seen(tmp_path: Path, api: ObjectsApi) -> None:
    def fault(request: Request) -> bool:
        if request.plural == f"mpijobs.{T9K}":
            raise Failure(403, "Forbidden", f"mpijobs.{T9K} is forbidden")
        return True

    api.fault = fault
    with Operator(tmp_path, api.port) as operator:
        operator.wait_until_said(f"the operator's role does not allow list and watch of mpijobs.{T9K}")
        submit(api, "one", faces=[ssh_job])
        api.wait(all_succeeded(["one"]))
        api.fault = lambda _request: True
        submit(api, "two", faces=[t9k_job])
        api.wait(all_succeeded(["two"]))


def test_t9k_s_jobs_can_be_left_to_t9k(tmp_path: Path, api: ObjectsApi) -> None:
    with Operator(tmp_path, api.port, "--t9k", "off", program=LOOKING_OFTEN):
        submit(api, "theirs", "ours", faces=[t9k_job, ssh_job])
        api.wait(all_succeeded(["ours"]))
        assert ("list", f"mpijobs.{T9K}") not in api.requests
        assert "status" not in api.objects.at((f"mpijobs.{T9K}", "team", "theirs"))


@pytest.mark.parametrize("answered", ["as it was", "by another's"])
def test_a_secret_that_is_there_already(tmp_path: Path, api: ObjectsApi, answered: str) -> None:
    """Ours, made by an operator that was ended before it knew; or someone else's, which stays as it is."""
    body = ssh_job("job-0")
    with api.objects.changed:
        made = api.objects.add("mpijobs", "team", body)
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "job-0", "uid": made["metadata"]["uid"]}
        owners = [{**owner, "controller": True}] if answered == "as it was" else []
        metadata = {"name": "job-0-ssh", "labels": {"mpi-agents/job-uid": owner["uid"]}, "ownerReferences": owners}
        kept = api.objects.add("secrets", "team", {"metadata": metadata, "data": {"ssh-privatekey": "bWluZQ=="}})
    with Operator(tmp_path, api.port):
        if answered == "as it was":
            api.wait(all_succeeded(["job-0"]))
        else:
            api.wait(lambda objects: "ErrResourceExists" in conditions(objects.at(("mpijobs", "team", "job-0"))))
    assert api.objects.at(("secrets", "team", "job-0-ssh")) == kept
