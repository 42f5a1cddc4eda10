"""`kubectl mpi doctor` as people call it, with the real operator, and of jobs that nobody runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml
from user_shell import ESCAPE, Shell, manifest

from tests.waiting import until

if TYPE_CHECKING:
    from agents.playground.cluster import Cluster
    from agents.playground.operated import Operated

Object = dict[str, Any]


def checks(text: str) -> dict[str, Object]:
    """The checks in what `-o json` prints, by group and name."""
    return {f"{one['group']}: {one['name']}": one for one in json.loads(text)}


def levels(text: str) -> dict[str, str]:
    return {name: str(one["level"]) for name, one in checks(text).items()}


def test_a_healthy_job(shell: Shell) -> None:
    job = manifest("sound", "sleep", "600")
    before = levels(shell.run("doctor", "-f", "-", "-o", "json", stdin=job))
    assert before["admission: job"] == before["admission: pod sound-worker-0"] == "ok"
    assert "sound" not in shell.run("list")  # it was tried only
    shell.run("submit", "-f", "-", stdin=job)
    until(lambda: "Running" in shell.run("list"), "it runs")
    found = levels(shell.run("doctor", "sound", "-o", "json"))
    assert found["cluster: operator"] == found["job: state"] == found["pods: ready"] == "ok"
    assert set(found.values()) == {"ok", "skip"}  # there are no nodes and quotas here
    shown = shell.run("doctor", "sound").splitlines()
    assert shown[0].split() == ["CHECK", "STATE", "RESULT"]
    assert any(line.split() == ["admission:", "job", "ok", "accepted", "(dry", "run)"] for line in shown)
    screen = shell.on_terminal("doctor", "sound")
    assert f"{ESCAPE}32mok" in screen
    probed = levels(shell.run("doctor", "sound", "--probe", "-o", "json"))
    asked = ("pods: shell", "mpi: version", "mpi: agent", "mpi: daemon", "dns: launcher to workers")
    assert {probed[name] for name in asked} == {"ok"}
    assert probed["pods: exec"] in {"ok", "warn"}  # this machine may be slow
    for wrong in (("sound", "-f", "-"), ("--probe",)):
        shell.run("doctor", *wrong, code=2)
    shell.run("delete", "sound")


def test_a_job_that_can_not_be(shell: Shell, operated: Operated) -> None:
    body = yaml.safe_load(manifest("ails", "sleep", "600"))
    body["spec"]["slotsPerWorker"] = 0
    invalid = failing(shell, "-f", "-", stdin=yaml.safe_dump(body))
    assert invalid["job: valid"]["what"] == "spec.slotsPerWorker: must be 1 or more, not 0"
    shell.run("submit", "-f", "-", stdin=manifest("ails", "sleep", "600"))
    until(lambda: "Running" in shell.run("list"), "it runs")
    operated.cluster.set_state("ails-worker-1", "image-pull-backoff")
    found = failing(shell, "ails")
    assert found["pods: images"]["remedy"] == "Check the image's name, the registry and the pull secret."
    assert failing(shell, "-f", "-", stdin=manifest("ails", "true"))["admission: job"]["level"] == "fail"  # it exists
    shell.run("delete", "ails")


def failing(shell: Shell, *arguments: str, stdin: str = "") -> dict[str, Object]:
    return checks(shell.call("doctor", *arguments, "-o", "json", code=1, stdin=stdin)[0])


def test_a_user_with_few_rights(foreign: Cluster) -> None:
    token = foreign.token("get mpijobs", "list mpijobs", "watch mpijobs", "list pods", "list events", "get pods/log")
    shell = Shell(foreign.kubeconfig(token))
    found = checks(shell.run("doctor", "-f", "-", "-o", "json", stdin=manifest("sound", "true")))
    assert found["rights: list, status, why, logs"]["level"] == "ok"
    assert found["rights: submit, run, rerun"]["level"] == "warn"
    assert "create mpijobs.kubeflow.org" in found["rights: submit, run, rerun"]["what"]
    assert found["admission: job"]["level"] == found["cluster: operator"]["level"] == "skip"
    assert (
        "rights: list, status, why, logs   fail"
        in Shell(foreign.kubeconfig(foreign.token("get pods"))).call("doctor", code=1)[0]
    )


def test_a_job_whose_pods_may_not_be_read(foreign: Cluster) -> None:
    Shell(foreign.kubeconfig()).run("submit", "-f", "-", stdin=manifest("hidden", "true"))
    shell = Shell(foreign.kubeconfig(foreign.token("get mpijobs", "list mpijobs")))
    found = checks(shell.call("doctor", "hidden", "-o", "json", code=1)[0])
    assert "list pods" in found["rights: list, status, why, logs"]["what"]
    assert found["job: state"]["level"] == "skip"


def test_without_a_cluster(tmp_path: Any) -> None:
    shell = Shell(str(tmp_path / "none"))
    found = levels(shell.run("doctor", "-f", "-", "-o", "json", stdin=manifest("sound", "true")))
    assert found == {"job: valid": "ok", "job: images": "ok", "cluster: all other checks": "skip"}
    assert "no cluster is configured" in shell.run("doctor", code=3)
    asked = shell.run("doctor", "-f", "-", "--context", "mine", code=3, stdin=manifest("sound", "true"))
    assert "no cluster is configured" in asked
