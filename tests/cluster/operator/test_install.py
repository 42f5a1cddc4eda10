"""The chart in a cluster: its first job, its rights, an upgrade while a job runs, and what is left of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operator.submitted import Submitted
from tests.cluster.restricted import violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.release import Release

    Submit = Callable[[MpiJob], Submitted]

_NO_TOKEN = "ls /var/run/secrets/kubernetes.io/serviceaccount && exit 9; exec mpirun -n 2 pi"


def test_the_notes_have_a_first_job_that_runs(
    release: Release, namespace: Namespace, kubectl: Callable[[str], str]
) -> None:
    first = release.notes.index("kubectl -n default apply")
    pasted = release.notes[first:].replace("-n default", f"-n {namespace.name}")
    assert "pi is approximately 3.14159265" in kubectl(pasted)


def test_the_notes_name_the_deployment(release: Release, kubectl: Callable[[str], str]) -> None:
    command = re.search(r"^ +(kubectl .* rollout status .*)$", release.notes, re.MULTILINE)
    assert command
    assert "successfully rolled out" in kubectl(command[1])


def test_its_pod_keeps_to_restricted(release: Release) -> None:
    (pod,) = release.pods()
    assert violations(pod, "operator") == []


@pytest.mark.usefixtures("no_namespace_ends")
def test_it_asks_for_nothing_that_it_has_no_right_to(release: Release, submit: Submit) -> None:
    """The rights of the chart are tested by all tests here, which run under them; this one names what is missing."""
    before = release.refusals()  # in namespaces that were being deleted, with their jobs
    assert submit(MpiJob("v1")).verdict() == "Succeeded"
    assert submit(MpiJob("v2beta1", name="two")).verdict() == "Succeeded"
    requests = [one for one in release.metrics() if "code" in one[1]]
    assert {"200", "201"} <= {labels["code"] for _, labels, _ in requests}
    assert release.refusals() == before


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_the_users_containers_have_no_token(submit: Submit, version: str) -> None:
    running = submit(MpiJob(version).command("/bin/sh", "-c", _NO_TOKEN))
    assert running.verdict() == "Succeeded", running.output
    for pod in running.namespace.pods(f"mpi-agents/job-uid={running.uid}"):
        for container in pod["spec"]["containers"]:
            mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            assert "/var/run/secrets/kubernetes.io/serviceaccount" not in mounts


@pytest.mark.alone
def test_an_upgrade_leaves_a_running_job_alone(release: Release, submit: Submit) -> None:
    running = submit(MpiJob("v2beta1").run("pi", "20"))
    running.until_condition("Running")
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.namespace.pods()}
    (old,) = release.pods()
    try:
        release.upgrade({"podAnnotations": {"changed": "yes"}})
        (new,) = release.pods()
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert running.verdict() == "Succeeded", running.output
        assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in running.namespace.pods()} == before
    finally:
        release.upgrade()


@pytest.mark.alone
def test_it_serves_the_namespaces_that_it_is_told_and_no_other(
    release: Release, submit: Submit, new_namespace: Callable[[str], Namespace]
) -> None:
    """Under Roles there, without a ClusterRole."""
    other = new_namespace("restricted")
    running = submit(MpiJob("v1", name="before"))
    assert running.verdict() == "Succeeded"
    try:
        release.upgrade({"namespaces": [other.name]})
        served, ignored = Submitted(other, MpiJob("v1")).start(), submit(MpiJob("v1"))
        assert served.verdict() == "Succeeded", served.output
        assert ignored.status() == {}
        assert release.refusals() == []
    finally:
        release.upgrade()
    assert ignored.verdict() == "Succeeded", ignored.output
