"""Names in a job that nothing reads: which are reported, and what they may have meant. None refuses the job."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, OURS, READY, resource, workers
from mpijobs import annotated, job, mpijob, problems
from test_job_definition import T9KS, VERSIONS, spec_fields

from agents.job.model import Dialect
from agents.job.unknown import closest

Object = dict[str, Any]

UNKNOWN = "is unknown and ignored"
ROLES = "spec.mpiReplicaSpecs"


def ignored(version: str, changes: Object) -> list[str]:
    return [str(one) for one in job(version, changes).ignored]


@pytest.mark.parametrize(
    ("version", "name", "meant"),
    [
        ("v1", "main_contaner", "main-container"),
        ("v2beta1", "transprot", "transport"),
        ("v2beta1", "sshPort", "ssh-port"),
        ("v2beta1", "worker_agents", "worker-agent"),
        ("v2beta1", "zzzzzz", ""),
        ("t9k", "dialect", ""),  # which this dialect does not have
        ("virtual", "ranks_lost", ""),
        ("virtual", "trnsport", "transport"),
    ],
)
def test_annotations(version: str, name: str, meant: str) -> None:
    hint = f"; did you mean mpi-agents/{meant}?" if meant else ""
    path = f"metadata.annotations[mpi-agents/{name.replace('_', '-')}]"
    assert ignored(version, annotated(**{name: "x"})) == [f"{path}: {UNKNOWN}{hint}"]


def test_annotations_of_others_are_theirs() -> None:
    assert ignored("v2beta1", {"metadata/annotations": {"other/transprot": "exec"}}) == []


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [("Workers", "Worker"), ("worker", "Worker"), ("Wroker", "Worker"), ("launcher", "Launcher"), ("Evaluator", "")],
)
def test_replica_types(version: str, name: str, meant: str) -> None:
    hint = f"; did you mean {meant}?" if meant else ""
    assert ignored(version, {f"spec/mpiReplicaSpecs/{name}": {}}) == [f"{ROLES}[{name}]: {UNKNOWN}{hint}"]


def test_a_misspelt_launcher_is_named_where_the_job_is_refused() -> None:
    body = mpijob("v2beta1")
    body["spec"]["mpiReplicaSpecs"]["Luancher"] = body["spec"]["mpiReplicaSpecs"].pop("Launcher")
    assert problems(body) == [f"{ROLES}[Launcher]: is required, and Luancher is unknown"]


@pytest.mark.parametrize(
    ("version", "changes", "said"),
    [
        ("v2beta1", {"spec/transprot": "exec"}, [f"spec.transprot: {UNKNOWN}; did you mean transport?"]),
        ("v1", {"spec/workeragent": True}, [f"spec.workeragent: {UNKNOWN}; did you mean workerAgent?"]),
        (
            "v1",
            {"spec/workerAgent": {"proceses": True}},
            [f"spec.workerAgent.proceses: {UNKNOWN}; did you mean processes?"],
        ),
        ("v1", {"spec/ssh": {"prot": 22}}, []),
        ("v1", {"spec/ssh": {"keytype": "ecdsa"}}, [f"spec.ssh.keytype: {UNKNOWN}; did you mean keyType?"]),
        ("t9k", {"spec/runmode": {}}, [f"spec.runmode: {UNKNOWN}; did you mean runMode?"]),
        ("virtual", {"spec/mainContainers": "x"}, [f"spec.mainContainers: {UNKNOWN}; did you mean mainContainer?"]),
        ("v2beta1", {"spec/slotsPerWroker": 2}, [f"spec.slotsPerWroker: {UNKNOWN}; did you mean slotsPerWorker?"]),
        (
            "v1",
            {"spec/runPolicy": {"cleanPodPolcy": "All"}},
            [f"spec.runPolicy.cleanPodPolcy: {UNKNOWN}; did you mean cleanPodPolicy?"],
        ),
        (
            "v1",
            {"spec/mpiReplicaSpecs/Worker/replica": 2},
            [f"{ROLES}[Worker].replica: {UNKNOWN}; did you mean replicas?"],
        ),
        ("v1", {"spec/mpiReplicaSpecs/Worker/template/spec/ephemeralContainer": []}, []),  # the API server's
        ("v1", {"spec/runPolicy": {"schedulingPolicy": {"minResources": {"gpus": 1, "gpu": 1}}}}, []),
        ("t9k", {"spec/worker/replica": 2}, [f"spec.worker.replica: {UNKNOWN}; did you mean replicas?"]),
        ("virtual", {"spec/dvm": {"enable": True}}, [f"spec.dvm.enable: {UNKNOWN}; did you mean enabled?"]),
        ("v2beta1", {"spec/elasticPolicy": {}}, []),  # of another operator, or of a later version
        ("v2beta1", {"spec/transprot": None}, []),
    ],
)
def test_fields_that_resemble_a_setting(version: str, changes: Object, said: list[str]) -> None:
    assert ignored(version, changes) == said


@pytest.mark.parametrize("version", [*VERSIONS.values(), T9KS])
def test_no_field_of_a_definition_is_taken_for_another_one(version: Object) -> None:
    siblings: dict[str, set[str]] = {}
    for path in spec_fields(version):
        parent, _, name = path.rpartition(".")
        siblings.setdefault(parent, set()).add(name)
    for names in siblings.values():
        names -= {"enable"}  # of an older generation, and refused
        assert [name for name in names if closest(name, names - {name}, 0.8)] == []


def test_of_thousands_of_names_few_are_compared() -> None:
    names = {f"mpi-agents/transprot-{number}": "x" for number in range(5000)} | {"mpi-agents/" + "t" * 50_000: "x"}
    assert len(ignored("v1", {"metadata/annotations": names})) <= 32


DIALECTS = pytest.mark.parametrize("version", [Dialect.V1, Dialect.V2BETA1])


@DIALECTS
def test_the_job_runs_and_says_what_it_ignores(version: str) -> None:
    found = plans.plan(resource(version, annotated(main_contaner="mpi"), READY, CREATED), *workers())
    message = f"metadata.annotations[mpi-agents/main-contaner]: {UNKNOWN}; did you mean mpi-agents/main-container?"
    assert plans.conditions(found)["SettingsIgnored"] == ("True", "SettingsIgnored", message)
    assert ("Warning", "SettingsIgnored", message) in plans.events(found)
    assert plans.actions(found, "create") == [f"create {plans.LAUNCHERS[version]}"]
    body = resource(version, None, READY, CREATED)
    body["status"] = plans.status(found)
    later = plans.plan(body, *workers(), now=plans.NOW + 60)
    assert "SettingsIgnored" not in plans.conditions(later)


@pytest.mark.parametrize("version", ["t9k", "virtual"])
def test_jobs_of_other_definitions_say_it_too(version: str) -> None:
    body = mpijob(version, annotated(trnsport="exec"))
    body["metadata"] |= {"resourceVersion": "7", "managedFields": OURS}
    body["status"] = {"conditions": [CREATED]}
    found = plans.plan(body, **plans.NOTHING)
    message = f"metadata.annotations[mpi-agents/trnsport]: {UNKNOWN}; did you mean mpi-agents/transport?"
    assert plans.conditions(found)["SettingsIgnored"] == ("True", "SettingsIgnored", message)
    assert ("Warning", "SettingsIgnored", message) in plans.events(found)


def test_many_are_counted_and_none_forges_a_line() -> None:
    names = {f"mpi-agents/zzz{number}\n\x1b[2J": "x" for number in range(20)}
    found = plans.plan(resource("v1", {"metadata/annotations": names}, READY, CREATED), *workers())
    message = plans.conditions(found)["SettingsIgnored"][2]
    assert message.endswith(" and 12 more")
    assert message.isprintable()


def test_a_suspended_job_says_it_too() -> None:
    changes = {"spec/runPolicy/suspend": True, "spec/mpiReplicaSpecs/Workers": {}}
    assert "SettingsIgnored" in plans.conditions(plans.plan(resource("v1", changes, CREATED)))
