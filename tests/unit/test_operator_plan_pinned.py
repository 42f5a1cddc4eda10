"""Plan: what a job's pods were made with is the job's while it has any, whatever its annotations say by now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, batch_job, condition, resource, workers
from mpijobs import annotated

from agents.job.model import Job
from agents.job.read import read
from agents.job.status import Event
from agents.kube.kinds import BATCH_JOB, POD
from agents.operator import objects
from agents.operator.actions import Action, Plan, WriteStatus
from agents.operator.plan import plan
from agents.operator.planning import pinned
from agents.operator.planning.view import Observed
from agents.operator.trim import trim

Object = dict[str, Any]

OTHER = {"exec": "ssh", "ssh": "exec", "v1": "v2beta1", "v2beta1": "v1"}
JOBS = pytest.mark.parametrize(
    ("version", "transport"), [(one, by) for one in ("v1", "v2beta1", "t9k", "t9k-3") for by in ("exec", "ssh")]
)
KUBEFLOWS = pytest.mark.parametrize(
    ("version", "transport"), [(one, by) for one in ("v1", "v2beta1") for by in ("exec", "ssh", None)]
)


def body(version: str, transport: str | None, /, *conditions: Object, **settings: str) -> Object:
    """A job of the spec's transport, annotated so since."""
    return resource(version, {"spec/transport": transport, **annotated(**settings)}, *conditions)


def going(version: str, transport: str | None, /, *conditions: Object, **settings: str) -> Object:
    return body(version, transport, READY, *conditions, CREATED, RUNNING, **settings)


def pods(made_for: Object) -> tuple[list[Object], Object | None]:
    """The job's pods, all running, and its launcher's batch Job, as the caches have them."""
    job = read(made_for)
    assert isinstance(job, Job)
    made = [objects.worker(job, index, plans.SETTINGS) for index in range(job.worker.replicas)]
    launcher = objects.launcher(job, plans.SETTINGS)
    batch = None
    if launcher["kind"] == "Job":
        batch = trim(BATCH_JOB, {**launcher, "metadata": {**launcher["metadata"], "uid": "uid-of-the-job"}})
        launcher = {**launcher["spec"]["template"], "kind": "Pod"}
        launcher["metadata"] = {**launcher["metadata"], "name": "pi-launcher-x", "namespace": job.namespace}
    return [_running(one) for one in (launcher, *made)], batch


def planned(resource: Object, now: Observed) -> Plan:
    """What is done when the job has become this one, and all else is as it was."""
    return plan(read(resource), replace(now, resource=resource), plans.SETTINGS, plans.NOW)


def lost(before: Object) -> tuple[Observed, str]:
    """A job whose last worker is lost, and that worker's name."""
    (launcher, *others), batch = pods(before)
    return plans.observed(before, launcher, *others[:-1], launcher_job=batch), others[-1]["metadata"]["name"]


def _running(pod: Object) -> Object:
    (template,) = workers(1, container=pod["spec"]["containers"][0]["name"])
    metadata = {**template["metadata"], **pod["metadata"], "uid": f"uid-of-{pod['metadata']['name']}"}
    return trim(POD, {"metadata": metadata, "spec": pod["spec"], "status": template["status"]})


@JOBS
def test_a_worker_that_is_lost_comes_back_by_the_transport_of_the_others(version: str, transport: str) -> None:
    before = going(version, transport)
    now, name = lost(before)
    job = read(before)
    assert isinstance(job, Job)
    edited = going(version, transport, transport=OTHER[transport])
    found = planned(edited, now)
    made = objects.worker(job, job.worker.replicas - 1, plans.SETTINGS)
    assert plans.created(found) == {f"Pod {name}": made}
    assert _but_for_words(found) == _but_for_words(planned(before, now))
    words = plans.conditions(found)["WorkersOutdated"]
    assert words[:2] == ("True", "SettingsKept")
    assert words[2].startswith(
        f"mpi-agents/transport can't change while the job has pods: it keeps {transport}. Set it back,"
    )
    assert [one[:2] for one in plans.events(found)] == [("Warning", "WorkersOutdated")]


@KUBEFLOWS
def test_a_job_keeps_its_dialect_too(version: str, transport: str | None) -> None:
    """And the transport, also where it is the dialect's."""
    before = going(version, transport)
    now, _name = lost(before)
    edited = going(version, transport, dialect=OTHER[version])
    found = planned(edited, now)
    assert _but_for_words(found) == _but_for_words(planned(before, now))
    assert plans.conditions(found)["WorkersOutdated"][2].startswith(
        "mpi-agents/dialect can't change while the job has pods: it"
    )
    assert "transport" not in plans.conditions(found)["WorkersOutdated"][2]


TWO = [{"name": "mpi", "image": "one"}, {"name": "log", "image": "two"}]
SHARED = {  # annotation → what it says, and what is kept where nothing was said before
    "main_container": ("log", "keeps mpi"),
    "mpi_implementation": ("MPICH", "keeps OpenMPI"),
    "run_launcher_as_worker": ("true", "keeps false"),
    "ssh_auth_mount_path": ("/keys", "keeps /root/.ssh"),
    "ssh_passwd": ("generated", "stays unset"),
    "ssh_port": ("2300", "stays unset"),
}


def with_two_containers(version: str, transport: str, **settings: str) -> Object:
    """A job that is running, annotated so."""
    two = {} if version.startswith("t9k") else {"spec/mpiReplicaSpecs/Worker/template/spec/containers": TWO}
    changes = {"spec/transport": transport, **two, **annotated(**settings)}
    return resource(version, changes, READY, CREATED, RUNNING)


@pytest.mark.parametrize("key", SHARED)
@JOBS
@pytest.mark.parametrize("is_given_before", [False, True])
def test_a_worker_that_is_lost_comes_back_as_the_running_launcher_knows_it(
    version: str, transport: str, key: str, is_given_before: bool
) -> None:
    value, kept = SHARED[key]
    given, plain = with_two_containers(version, transport, **{key: value}), with_two_containers(version, transport)
    before, edited = (given, plain) if is_given_before else (plain, given)
    now, name = lost(before)
    found = planned(edited, now)
    assert _but_for_words(found) == _but_for_words(planned(before, now))
    assert plans.created(found).keys() == {f"Pod {name}"}
    is_read = (key.startswith("ssh") and transport == "ssh") or not (key.startswith("ssh") or version.startswith("t9k"))
    said = plans.conditions(found).get("WorkersOutdated")
    assert (said is not None) is is_read
    if said is not None:
        setting = f"mpi-agents/{key.replace('_', '-')}"
        words = (
            f"{setting} can't change while the job has pods: it {f'keeps {value}' if is_given_before else kept}. Set"
        )
        assert said[:2] == ("True", "SettingsKept")
        assert said[2].startswith(words)
        without = plans.plan(edited)
        assert any(
            one != plans.created(plans.plan(before)).get(key) for key, one in plans.created(without).items()
        )  # it does matter


@KUBEFLOWS
def test_a_main_container_that_the_template_has_no_longer_is_not_kept(version: str, transport: str | None) -> None:
    """A worker of the new template would run its ranks, or its sshd, in the first container."""

    def named(main: str) -> Object:
        containers = [{"name": "log", "image": "two"}, {"name": main, "image": "one"}]
        changes = {"spec/mpiReplicaSpecs/Worker/template/spec/containers": containers, "spec/transport": transport}
        return resource(version, {**changes, **annotated(main_container=main)}, READY, CREATED)

    _, *others = pods(named("mpi"))[0]
    found = plans.created(plans.plan(named("program"), *others[:-1]))
    annotations = found[f"Pod {others[-1]['metadata']['name']}"]["metadata"]["annotations"]
    assert annotations["kubectl.kubernetes.io/default-container"] == "program"


@KUBEFLOWS
@pytest.mark.parametrize("names", [["log", "mpi"], ["mpi", "log"], ["mpi"]])
def test_the_first_container_stays_the_main_one_when_it_is_named(
    version: str, transport: str | None, names: list[str]
) -> None:
    """As by who puts another one before it."""
    plain = {"spec/transport": transport}
    containers = [{"name": name, "image": "any"} for name in names]
    named = {"spec/mpiReplicaSpecs/Worker/template/spec/containers": containers, **annotated(main_container="mpi")}
    (launcher, *others), batch = pods(resource(version, plain, READY, CREATED))
    edited = resource(version, {**plain, **named}, READY, CREATED)
    now = plans.observed(edited, launcher, *others[:-1], launcher_job=batch)
    assert pinned.pin(read(edited), now) == (read(edited), {})
    made = plans.created(plan(read(edited), now, plans.SETTINGS, plans.NOW))[f"Pod {others[-1]['metadata']['name']}"]
    assert made["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "mpi"


def test_a_field_of_the_spec_is_kept_as_its_annotation_is() -> None:
    (launcher, *others), batch = pods(going("v2beta1", "ssh"))
    edited = resource("v2beta1", {"spec/transport": "ssh", "spec/ssh": {"port": 2300}}, READY, CREATED, RUNNING)
    job, kept = pinned.pin(read(edited), plans.observed(edited, launcher, *others, launcher_job=batch))
    assert isinstance(job, Job)
    assert (job.ssh.port, kept) == (None, {"sshPort": ""})


@pytest.mark.parametrize(
    "wish", [{"worker_agent": "false"}, {"sshd_path": "/opt/sshd"}, {"rbac": "none"}, {"ssh_key_type": "ecdsa"}]
)
def test_what_a_launcher_need_not_know_changes_with_the_next_pod(wish: dict[str, str]) -> None:
    edited = going("v2beta1", "ssh", **wish)
    all_of_them, batch = pods(going("v2beta1", "ssh"))
    assert pinned.pin(read(edited), plans.observed(edited, *all_of_them, launcher_job=batch)) == (read(edited), {})


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        pytest.param("[" * 100_000, id="deep"),
        "7",
        '{"sshPort": 1}',
        '{"sshPort": "x"}',
        '{"sshPasswd": "no"}',
        '{"other": "x"}',
    ],
)
def test_what_is_written_on_a_pod_by_someone_else_holds_nothing(text: str | None) -> None:
    """Nor does a pod of an operator that wrote nothing."""
    all_of_them, batch = pods(going("v2beta1", "ssh"))
    for one in (*all_of_them, batch):
        assert one is not None
        one["metadata"]["annotations"]["mpi-agents/settings"] = text
    edited = going("v2beta1", "ssh", ssh_port="2300")
    now = plans.observed(edited, *all_of_them, launcher_job=batch)
    assert pinned.pin(read(edited), now) == (read(edited), {})


@JOBS
def test_it_is_said_once_and_not_any_more_when_it_is_taken_back(version: str, transport: str) -> None:
    first = going(version, transport, transport=OTHER[transport])
    all_of_them, batch = pods(going(version, transport))
    now = plans.observed(going(version, transport), *all_of_them, launcher_job=batch)
    found = planned(first, now)
    status, reason, message = plans.conditions(found)["WorkersOutdated"]
    said = condition("WorkersOutdated", status, reason, message)
    again = going(version, transport, said, transport=OTHER[transport])
    told_again = planned(again, now)
    assert [one for one in plans.events(told_again) if one[1] == "WorkersOutdated"] == []
    back = planned(going(version, transport, said), now)
    assert "WorkersOutdated" not in plans.conditions(back)


@JOBS
def test_a_job_without_pods_takes_it(version: str, transport: str) -> None:
    resumed = condition("Suspended", "False", "MPIJobResumed")
    edited = body(version, transport, resumed, CREATED, transport=OTHER[transport])
    plain = body(version, OTHER[transport], resumed, CREATED)
    found = plans.created(plans.plan(edited))
    assert found == plans.created(plans.plan(plain))
    assert any("worker-0" in name for name in found)


@pytest.mark.parametrize("transport", ["exec", "ssh"])
def test_a_batch_job_that_has_no_pod_yet_says_how_its_pod_will_be(transport: str) -> None:
    _, batch = pods(going("v2beta1", transport))
    edited = going("v2beta1", transport, transport=OTHER[transport], dialect="v1")
    job, kept = pinned.pin(read(edited), plans.observed(edited, launcher_job=batch))
    assert isinstance(job, Job)
    assert (str(job.transport), str(job.dialect)) == (transport, "v2beta1")
    assert kept == {"transport": transport, "dialect": "v2beta1"}


def test_a_batch_job_that_is_going_holds_nothing() -> None:
    """It is there until the garbage collector has looked at it, after its last pod: who resumed so soon is not held."""
    going_job = pods(body("v2beta1", "exec"))[1]
    assert going_job is not None
    going_job["metadata"]["deletionTimestamp"] = "2023-11-14T22:15:00Z"
    edited = body("v2beta1", "exec", transport="ssh")
    job, kept = pinned.pin(read(edited), plans.observed(edited, launcher_job=going_job))
    assert isinstance(job, Job)
    assert (job.transport, kept) == ("ssh", {})


def test_a_job_that_its_new_dialect_would_refuse_goes_on_in_the_one_of_its_pods() -> None:
    """v2beta1 has no ExitCode."""
    exits = {"spec/mpiReplicaSpecs/Worker/restartPolicy": "ExitCode", "metadata/managedFields": plans.OURS}
    before = resource("v1", exits, READY, CREATED, RUNNING)
    edited = resource("v1", {**exits, **annotated(dialect="v2beta1")}, READY, CREATED, RUNNING)
    assert isinstance(read(edited), tuple)
    found, kept = pinned.pin(read(edited), plans.observed(edited, *pods(before)[0]))
    assert isinstance(found, Job)
    assert kept == {"dialect": "v1"}


@pytest.mark.parametrize("wrong", [{"transport": "rsh"}, {"dialect": "v3"}, {"dialect": "v2beta1", "rbac": "nobody"}])
def test_what_can_t_be_read_is_still_said(wrong: dict[str, str]) -> None:
    edited = going("v1", "exec", **wrong)
    all_of_them, _ = pods(going("v1", "exec"))
    found = plan(read(edited), plans.observed(edited, *all_of_them), plans.SETTINGS, plans.NOW)
    assert plans.steps(found) == [["write"], ["tell ValidationError"]]


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([], {}),
        ([{"name": "data"}], {}),
        ([{"name": "mpi-job-config"}], {"transport": "exec"}),
        ([{"name": "mpi-job-ssh", "secret": {"secretName": "pi-ssh"}}], {"transport": "ssh"}),
        ([{"name": "mpi-job-ssh"}, {"name": "mpi-job-config"}], {"transport": "exec"}),
        (
            [{"name": "mpi-job-ssh", "emptyDir": {}}, {"name": "mpi-job-ssh-2", "secret": {"secretName": "pi-ssh"}}],
            {"transport": "ssh"},
        ),
        (
            [{"name": "mpi-job-ssh", "secret": {"secretName": "mine"}}, {"name": "mpi-job-config-2"}],
            {"transport": "exec"},
        ),
    ],
)
def test_a_pod_tells_its_transport_by_our_volumes(volumes: list[Object], expected: dict[str, str]) -> None:
    """Of these names the user's template may have some, too."""
    (one,) = workers(1)
    one["spec"]["volumes"] = volumes
    assert pinned.made_with(plans.observed(going("v1", "exec"), trim(POD, one))) == expected


def test_where_pods_differ_the_launcher_says() -> None:
    (launcher, *_), _batch = pods(going("v1", "ssh"))
    (_, *others), _batch = pods(going("v1", "exec"))
    found = pinned.made_with(plans.observed(going("v1", "exec"), *others, launcher))
    assert found == {"transport": "ssh", "dialect": "v1"}
    assert (
        pinned.made_with(plans.observed(going("v1", "exec"), *others, launcher_job=batch_job()))["dialect"] == "v2beta1"
    )


def test_no_worker_speaks_against_a_launcher_that_was_made_before_settings_were_written() -> None:
    """A worker that came by an edit's wish would keep the job from being set back."""
    before = going("v2beta1", "ssh")
    (launcher, *others), batch = pods(before)
    for one in (launcher, batch):
        assert one is not None
        del one["metadata"]["annotations"]["mpi-agents/settings"]
    late = pods(going("v2beta1", "ssh", ssh_port="2300"))[0][1]
    now = plans.observed(before, launcher, late, *others[1:], launcher_job=batch)
    assert pinned.pin(read(before), now) == (read(before), {})


def _but_for_words(found: Plan) -> list[Action]:
    return [one for step in found.steps for one in step if not isinstance(one, WriteStatus | Event)]
