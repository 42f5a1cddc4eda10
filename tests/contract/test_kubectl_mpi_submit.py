"""`kubectl mpi submit` and `convert`: what they make of the files that they read."""

from __future__ import annotations

import re
from subprocess import PIPE
from typing import TYPE_CHECKING

import pytest
import yaml
from user_shell import Shell, manifest

from agents.client import ManifestError, MpiClient, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from agents.playground.cluster import Cluster


def test_files_are_checked_before_anything_is_created(shell: Shell, tmp_path: Path) -> None:
    wrong = yaml.safe_load(manifest("wrong", "true"))
    wrong["spec"]["slotsPerWorker"] = 0
    (tmp_path / "jobs.yaml").write_text(manifest("right", "true") + "---\n" + yaml.safe_dump(wrong))
    assert "job wrong: spec.slotsPerWorker: " in shell.run("submit", "-f", str(tmp_path / "jobs.yaml"), code=2)
    assert "right" not in shell.run("list")
    assert "is no MPIJob" in shell.run("submit", "-f", "-", stdin="{kind: Pod, metadata: {name: x}}", code=2)
    assert "is no YAML" in shell.run("submit", "-f", "-", stdin="{", code=2)
    assert "can't be read" in shell.run("submit", "-f", str(tmp_path / "none"), code=2)
    shell.run("submit", "-f", "-", stdin=manifest("twice", "true"))
    assert "already exists" in shell.run("submit", "-f", "-", stdin=manifest("twice", "true"), code=1)
    shell.run("delete", "twice")


def test_misspelt_names_are_warned_of(foreign: Cluster, tmp_path: Path) -> None:
    """The API server drops them without a word."""
    job = yaml.safe_load(manifest("typos", "true"))
    job["spec"]["slotsPerWroker"] = 2
    job["spec"]["mpiReplicaSpecs"]["Workers"] = {}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    process = Shell(foreign.kubeconfig()).start("submit", "-f", str(tmp_path / "job.yaml"), stdout=PIPE, stderr=PIPE)
    output, said = process.communicate(timeout=100)
    assert (process.returncode, output) == (0, "mpijob.kubeflow.org/typos created\n")
    assert "warning: spec.slotsPerWroker: is unknown and ignored; did you mean slotsPerWorker?" in said
    assert "warning: spec.mpiReplicaSpecs[Workers]: is unknown and ignored; did you mean Worker?" in said


def test_the_api_server_makes_a_name(foreign: Cluster) -> None:
    job = yaml.safe_load(manifest("", "true"))
    job["metadata"] = {"generateName": "made-"}
    created = Shell(foreign.kubeconfig()).run("submit", "-f", "-", stdin=yaml.safe_dump(job))
    assert re.fullmatch(r"mpijob\.kubeflow\.org/made-\w+ created\n", created)


def test_a_job_of_another_namespace_is_not_created_elsewhere(foreign: Cluster) -> None:
    """kubectl refuses it too if -n is given; without -n the job's own namespace holds."""
    foreign.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hpc"}})
    shell, job = Shell(foreign.kubeconfig()), yaml.safe_load(manifest("there", "true"))
    job["metadata"]["namespace"] = "hpc"
    refused = 'the namespace from the provided object "hpc" does not match the namespace "default"'
    assert refused in shell.run("submit", "-n", "default", "-f", "-", stdin=yaml.safe_dump(job), code=2)
    with MpiClient(kubeconfig=foreign.kubeconfig()) as python:
        with pytest.raises(ManifestError, match=refused):
            python.submit(job)
        with pytest.raises(NotFoundError):
            python.within("hpc").get("there")
        assert shell.run("submit", "-f", "-", stdin=yaml.safe_dump(job)) == "mpijob.kubeflow.org/there created\n"
        assert python.within("hpc").get("there").summary.namespace == "hpc"
        assert python.namespace == "default"


def test_a_config_map_without_an_owner_gets_none(foreign: Cluster) -> None:
    """A job may name any as its files: it would be deleted with the job."""
    foreign.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {}})
    job = yaml.safe_load(manifest("claims", "true"))
    pod = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    pod["volumes"] = [{"name": "mpi-sync-packed", "configMap": {"name": "mine"}}]
    Shell(foreign.kubeconfig()).run("submit", "-f", "-", stdin=yaml.safe_dump(job))
    [found] = foreign.request("GET", "/api/v1/namespaces/default/configmaps")["items"]
    assert (found["metadata"]["name"], "ownerReferences" in found["metadata"]) == ("mine", False)


def test_a_job_is_converted_without_a_cluster(tmp_path: Path) -> None:
    nowhere = Shell(str(tmp_path / "none"))
    found = yaml.safe_load(nowhere.run("convert", "-f", "examples/t9k/pi.yaml", "--to", "v1"))
    assert found["apiVersion"] == "kubeflow.org/v1"
    assert "is no YAML" in nowhere.run("convert", "-f", "-", "--to", "v1", code=2, stdin="{")
    jobs = [yaml.safe_load(manifest(name, "true")) for name in ("first", "second")]
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": jobs}
    converted = nowhere.run("convert", "-f", "-", "--to", "v2beta1", stdin=yaml.safe_dump(listed))
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(converted)] == ["first", "second"]
    others = manifest("first", "true") + "---\n{apiVersion: v1, kind: Service, metadata: {name: pi}}"
    printed, said = nowhere.call("convert", "-f", "-", code=2, stdin=others)
    assert (printed, said) == ("", "error: pi is a Service, not a job\n")
