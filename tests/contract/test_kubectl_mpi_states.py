"""`kubectl mpi` on jobs in each state, which the real operator runs on a stand-in cluster."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from user_shell import Shell, cells, manifest

from tests.waiting import until


@pytest.mark.timeout(300)  # it calls the command 17 times
def test_a_healthy_job(shell: Shell) -> None:
    job = manifest("well", "mpirun", "--allow-run-as-root", "-n", "2", "sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK")
    assert shell.run("submit", "-f", "-", stdin=job) == "mpijob.kubeflow.org/well created\n"
    assert "well succeeded after" in shell.run("wait", "well", "--timeout", "60s")
    said = shell.run("logs", "well").splitlines()
    assert sorted(line for line in said if line.startswith("rank ")) == ["rank 0", "rank 1"]  # mpirun may warn
    assert shell.run("logs", "well", "--tail", "1") == f"{said[-1]}\n"
    assert cells(shell.run("list"), "well")[:4] == ["well", "Succeeded", "-", "-"]
    assert "mpijob.kubeflow.org/well\n" in shell.run("list", "-A", "-o", "name")
    screen = shell.run("status", "well")
    assert "default/well: Succeeded" in screen
    assert "launcher well-launcher ended with exit code 0" in screen
    assert json.loads(shell.run("status", "well", "-o", "json"))["exit_code"] == 0
    assert yaml.safe_load(shell.run("why", "well", "-o", "yaml"))["state"] == "Succeeded"
    until(lambda: "MPIJobSucceeded" in shell.run("events", "well"), "the event of its end")
    assert shell.run("attach", "well") == shell.run("logs", "well") == shell.run("logs", "well", "-f")
    assert shell.run("delete", "well") == "mpijob.kubeflow.org/well deleted\n"
    assert 'no MPIJob "well" in namespace "default"' in shell.run("why", "well", code=4)
    assert shell.run("delete", "well", "--ignore-not-found") == ""


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_failing_launcher(shell: Shell, version: str) -> None:
    """Of v2beta1 the launcher's Job deletes the pod immediately; what the operator has seen of it stays."""
    name, command = f"ill-{version}", ("sh", "-c", "echo epoch 1; echo out of luck; exit 3")
    shell.run("submit", "-f", "-", stdin=manifest(name, *command, version=version, backoffLimit=0))
    shell.run("wait", name, code=1)
    found = shell.run("why", name)
    assert "container mpi exited with 3" in found
    *_, head, first, last = found.splitlines()
    assert re.fullmatch(rf"Last lines of {name}-launcher[-\w]*:", head)
    assert [first, last] == ["  | epoch 1", "  | out of luck"]
    assert cells(shell.run("list", "-o", "wide"), name)[1:3] == ["Failed", "ExitCode3"]
    assert f"{name} failed after" in shell.run("attach", name, code=3)
    assert shell.run("rerun", name) == f"mpijob.kubeflow.org/{name}-2 created\n"
    shell.run("wait", f"{name}-2", code=1)


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_job_that_used_no_worker(shell: Shell, version: str) -> None:
    """As an mpirun that reads no hostfile does. Its hub says so at the hub's end, maybe after the job's."""
    name = f"alone-{version}"
    shell.run("submit", "-f", "-", stdin=manifest(name, "echo", "rank 0 of 1", version=version))
    shell.run("wait", name)
    until(lambda: "exited with 0 and started nothing in the job's" in shell.run("why", name), "the launcher was alone")


def test_a_job_is_paused_debugged_and_resumed(shell: Shell) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("stops", "sh", "-c", "echo begun; exec sleep 600"))
    shell.run("wait", "stops", "--for", "running")
    assert shell.run("pause", "stops") == "mpijob.kubeflow.org/stops paused\n"
    until(lambda: "stops is suspended and has no pods." in shell.run("why", "stops"), "its pods are gone")
    assert cells(shell.run("list"), "stops")[1] == "Suspended"
    assert "stops has no launcher pod: stops is suspended" in shell.run("logs", "stops", code=4)
    assert "stops has not ended" in shell.run("rerun", "stops", code=2)
    assert shell.run("debug", "stops", "on") == "mpijob.kubeflow.org/stops debug on\n"
    assert shell.run("resume", "stops") == "mpijob.kubeflow.org/stops resumed\n"
    until(lambda: "its launcher waits for you" in shell.run("why", "stops"), "it is in debug mode")
    assert shell.run("logs", "stops") == ""
    shell.run("delete", "stops")
