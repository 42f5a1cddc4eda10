"""What `list`, `status` and `events` show: tables and screens, line by line."""

from __future__ import annotations

import dataclasses
import json

import pytest
from client_jobs import BEGAN, NOW, event, facts, job, pod, workers

from agents.client.model import JobStatus, JobSummary, as_json
from agents.client.objects import kind_of, owned
from agents.client.summaries import events_of, status_of, summary_of
from agents.kubectl_mpi import tables
from agents.kubectl_mpi.tables import Terminal

COMMAND = "spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/command"
RUNNING = facts(
    job("v1", "Created", "Running", changes={"spec/slotsPerWorker": 4, COMMAND: ["mpirun", "-n", "5", "pi"]}),
    *workers("ready", "ready"),
    pod("pi-launcher", "ready"),
)
PULLING = facts(
    job("v2beta1", "Created", changes={"metadata/name": "cfd"}), *[pod("cfd-worker-0", "image-pull-backoff")]
)
FAILED = facts(job("v1", "Running", "Failed"), pod("pi-launcher", "failed", exit_code=3, started=10, ended=100))


def shape(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def marked(text: str, colour: str) -> str:
    return f"<{colour}>{text}</>"


def test_list() -> None:
    found = [summary_of(one) for one in (RUNNING, PULLING, FAILED)]
    assert tables.jobs(found, NOW, has_namespace=False) == [
        "NAME   STATE      REASON             READY   AGE   RANKS   QUEUE   POS",
        "pi     Running    -                  2/2     5m    5       -       -",
        "cfd    Starting   ImagePullBackOff   0/2     5m    <=2     -       -",
        "pi     Failed     ExitCode3          -       5m    <=2     -       -",
    ]


def test_a_table_that_is_wider_than_the_terminal_is_shown_without_empty_columns_and_wrapped() -> None:
    rows = [["pi-worker-0", "red", "-", "can't pull its image: correct the name"], ["pi-worker-1", "", "", "slow"]]
    titles = ["POD", "STATE", "NODE", "WHY"]
    wide = [
        "POD           STATE   NODE   WHY",
        "pi-worker-0   red     -      can't pull its image: correct the name",
        "pi-worker-1                  slow",
    ]
    assert tables.table(titles, rows) == tables.table(titles, rows, on=Terminal(width=len(wide[1]))) == wide
    assert tables.table(titles, rows, ["red", ""], Terminal(marked, 53)) == [
        "POD           STATE   WHY",
        "pi-worker-0   <red>red  </>   can't pull its image: correct",
        "                      the name",
        "pi-worker-1           slow",
    ]
    assert tables.table(titles, rows, on=Terminal(width=51)) == [
        "POD           STATE   WHY",
        "pi-worker-0   red     can't pull its image: correct the name",
        "pi-worker-1           slow",
    ]
    assert tables.table(titles, [], on=Terminal(width=5)) == ["POD   STATE   NODE   WHY"]


def test_the_queue_that_is_shown() -> None:
    gang = {"spec/runPolicy/schedulingPolicy": {"queue": "gang"}}
    kueue = {"metadata/labels": {"kueue.x-k8s.io/queue-name": "gpu"}}
    found = [summary_of(facts(job("v1", changes=one))).queue for one in ({}, gang, kueue, gang | kueue)]
    assert found == ["", "gang", "gpu", "gpu"]


def test_list_of_all_namespaces_and_wide() -> None:
    lines = tables.jobs([summary_of(FAILED)], NOW, has_namespace=True, is_wide=True)
    assert shape(lines) == [
        "NAMESPACE NAME STATE REASON READY AGE RANKS QUEUE POS SLOTS API TRANSPORT TIME",
        "default pi Failed ExitCode3 - 5m <=2 - - 2 v1 exec 2m",
    ]


def test_colours_change_no_width() -> None:
    found = [summary_of(one) for one in (RUNNING, PULLING, FAILED)]
    coloured = tables.jobs(found, NOW, has_namespace=False, on=Terminal(marked))
    assert "<green>Running </>" in coloured[1]
    assert "<red>Failed  </>" in coloured[3]
    plain = [line.replace("</>", "").replace("<green>", "").replace("<red>", "") for line in coloured]
    plain = [line.replace("<yellow>", "") for line in plain]
    assert plain == tables.jobs(found, NOW, has_namespace=False)


def test_status_of_a_running_job() -> None:
    lines = shape(tables.screen(status_of(RUNNING), NOW))
    assert lines[:9] == [
        "default/pi: Running",
        "pi has been running for 5 min on 2 of 2 workers.",
        "",
        "2 workers, 2 ready, 5 ranks in 8 slots, dialect v1, transport exec",
        "",
        "POD STATE NODE RESTARTS RANKS WHY",
        "pi-launcher Ready node-1 0 -",
        "pi-worker-0 Ready node-1 0 0-3",
        "pi-worker-1 Ready node-1 0 4",
    ]
    assert lines[10] == "TIME AFTER WHAT"
    assert lines[11].endswith("+0s created")
    assert lines[12].endswith("+1s first worker created")


def test_status_says_what_would_tell_where_ranks_run() -> None:
    given = job("v1", "Running", changes={"spec/slotsPerWorker": 4, COMMAND: ["mpirun", "pi"]})
    asked = [pod("pi-worker-0", "ready"), pod("pi-worker-1", "ready")]
    assert "set spec.workerAgent: {processes: true}" in "\n".join(tables.screen(status_of(facts(given, *asked)), NOW))
    for one in asked:
        one["spec"] |= {"shareProcessNamespace": True, "initContainers": [{"name": "a", "command": ["mpi-worker"]}]}
    lines = tables.screen(status_of(facts(given, *asked)), NOW)
    assert "Which ranks run where: `kubectl mpi top pi` asks the worker agents." in lines
    assert "up to 4" in next(line for line in lines if line.startswith("pi-worker-0"))
    assert (status_of(RUNNING).notes, status_of(facts(given)).notes) == ((), ())


def test_status_says_why_pods_are_not_ready() -> None:
    lines = shape(tables.screen(status_of(PULLING), NOW))
    assert lines[0] == "default/cfd: Starting (ImagePullBackOff)"
    [first] = [line for line in lines if line.startswith("cfd-worker-0")]
    assert first.startswith("cfd-worker-0 ImagePullBackOff node-1 0 up to 1 container mpi can't get its image")
    assert "cfd-worker-1 Missing - 0 up to 1 not created yet" in lines


@pytest.mark.parametrize(
    ("state", "told", "shown"),
    [
        ("failed", {"exit_code": 3}, "ExitCode3"),
        ("oom-killed", {}, "OOMKilled"),
        ("evicted", {}, "Evicted"),
        ("succeeded", {}, "Completed"),
    ],
)
def test_the_state_of_a_pod_that_has_ended(state: str, told: dict[str, int], shown: str) -> None:
    found = status_of(facts(job("v1", "Failed"), pod("pi-launcher", state, **told)))
    [line] = [line.split() for line in tables.screen(found, NOW) if line.startswith("pi-launcher")]
    assert line[1] == shown


def test_a_long_reason_is_cut_but_not_in_the_wide_form() -> None:
    long = facts(job("v1", "Created"), pod("pi-worker-0", "image-pull-backoff", message="x" * 200))
    narrow, wide = (tables.screen(status_of(long), NOW, is_wide=is_wide) for is_wide in (False, True))
    assert [line.endswith("xxx…") for line in narrow if line.startswith("pi-worker-0")] == [True]
    assert [line.endswith("x" * 200) for line in wide if line.startswith("pi-worker-0")] == [True]


def test_status_of_an_ended_job_has_its_exit_code_and_no_absent_workers() -> None:
    found = status_of(FAILED)
    assert (found.exit_code, found.workers) == (3, ())
    assert [(step.at - BEGAN, step.what) for step in found.timeline] == [
        (0, "created"),
        (5, "running"),
        (5, "failed"),
        (10, "launcher pi-launcher started"),
        (100, "launcher pi-launcher ended with exit code 3"),
    ]


def test_of_many_workers_the_ready_ones_are_counted() -> None:
    states = ["ready"] * 60
    states[7] = "unschedulable"
    many = facts(job("v1", "Created", changes={"spec/mpiReplicaSpecs/Worker/replicas": 60}), *workers(*states))
    lines = shape(tables.screen(status_of(many), NOW))
    assert [line.split()[0] for line in lines if line.startswith("pi-worker-")] == ["pi-worker-7"]
    assert "and 59 workers that are ready (-o wide shows them)" in lines
    wide = tables.screen(status_of(many), NOW, is_wide=True)
    assert len([line for line in wide if line.startswith("pi-worker-")]) == 60


def test_events() -> None:
    found = events_of([event("no luck") | {"count": 4}])
    assert tables.events(found, BEGAN + 60) == [
        "LAST SEEN   TYPE      REASON         OBJECT      MESSAGE",
        "40s         Warning   FailedCreate   MPIJob/pi   no luck (x4)",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (200, "3m20s"),
        (300, "5m"),
        (9000, "150m"),
        (5 * 3600, "5h"),
        (3 * 86400, "3d"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert tables.age(seconds) == text


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k", "t9k-3"])
def test_a_summary_is_json_with_the_models_names(version: str) -> None:
    found = as_json(summary_of(facts(job(version, "Running"), *workers("ready", "ready"))))
    assert json.loads(json.dumps(found)) == found
    assert set(found) == {field.name for field in dataclasses.fields(JobSummary)}
    assert found["created"] == "2026-03-01T12:00:00Z"
    assert found["dialect"] == version.partition("-")[0]
    assert found["resource"] == f"mpijob.{kind_of(job(version)).group}/pi"


def test_a_status_is_json() -> None:
    found = as_json(status_of(RUNNING))
    assert json.loads(json.dumps(found)) == found
    assert set(found) == {field.name for field in dataclasses.fields(JobStatus)}
    assert found["timeline"][0] == {"at": "2026-03-01T12:00:00Z", "what": "created"}
    assert [one["name"] for one in found["workers"]] == ["pi-worker-0", "pi-worker-1"]


def test_a_pod_counts_by_its_controller_alone() -> None:
    """Anyone may put a job's labels on a pod."""
    own, launcher, stranger = (pod(name, "ready") for name in ("pi-worker-0", "pi-launcher-x", "pi-worker-1"))
    launcher["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "pi-launcher", "uid": "9", "controller": True}]
    stranger["metadata"]["ownerReferences"] = [{"kind": "MPIJob", "name": "pi", "uid": "other", "controller": True}]
    elsewhere = pod("pi-worker-0", "ready")
    elsewhere["metadata"]["namespace"] = "other"
    found = owned(job("v2beta1"), [own, launcher, stranger, elsewhere])
    assert [one["metadata"]["name"] for one in found] == ["pi-worker-0", "pi-launcher-x"]
