"""Workers that only wait are deleted with a short grace period, when nothing of the launcher is left in them."""

from __future__ import annotations

from typing import Any

import plans
import pytest
from job_states import CREATED, READY, RUNNING, condition, launcher, own, resource, workers
from mpijobs import t9k_mpijob

from agents.job.model import Job
from agents.job.read import read
from agents.job.run_mode import effective
from agents.operator import objects
from agents.operator.actions import Delete, DeleteWorkers, Plan
from agents.operator.planning.idling import is_idle

Object = dict[str, Any]

SPEC = "spec/mpiReplicaSpecs/Worker/template/spec"
COMMAND = f"{SPEC}/containers/0/command"
CLEAN = {"spec/runPolicy/cleanPodPolicy": "Running"}
SUSPEND = {"spec/runPolicy/suspend": True}
SLEEPS = {COMMAND: ["sleep", "infinity"]}
LAUNCHES = "spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/command"
ELASTIC = {LAUNCHES: ["horovodrun", "--min-np", "1"]}  # its success waits for no word of the hub
HUB_SPEC = {"name": "hub", "restartPolicy": "Always"}
LATE = "2023-11-14T22:15:00Z"  # NOW
ENDING = "2023-11-14T22:15:20Z"  # 20 s after NOW
BATCH_GOING = {"metadata": {"name": "pi-launcher", "uid": "uid-of-the-job", "deletionTimestamp": ENDING}}


def sh(text: str, *options: str, shell: str = "/bin/sh") -> list[str]:
    return [shell, *(options or ("-c",)), text]


WAITS: list[list[str]] = [
    ["sleep", "infinity"],
    ["/bin/sleep", "365d"],
    ["sleep", "inf"],
    ["sleep", "1h", "30m"],
    ["tail", "-f", "/dev/null"],
    ["/usr/bin/tail", "-n", "0", "-F", "/dev/null"],
    sh("sleep infinity"),
    sh("exec sleep infinity", shell="bash"),
    sh("tail -f /dev/null", "-lc", shell="/usr/bin/bash"),
    sh("sleep inf", "-euo", "pipefail", "-c", shell="/bin/bash"),
    sh("sleep inf", "--norc", "-x", "-c", shell="/bin/bash"),
    sh("while true; do sleep 30; done;", "-c", "--", shell="/bin/bash"),
    sh("sleep inf", "-c", "-l", shell="/bin/bash"),
    sh("git clone https://example.org/x.git && cd x && pip install -r requirements.txt && sleep infinity"),
    sh("apt-get update || true; pip install 'torch>=2' > /tmp/log 2>&1; touch /tmp/ready; tail -f /dev/null"),
    sh("# it is prepared first\nset -e\npip install horovod \\\n  --no-cache-dir\nsleep infinity\n"),
    sh("if [ -e /data ]; then cp -r /data /tmp; fi\nfor i in 1 2; do echo $i; done; exec sleep 1d;"),
    sh("sleep infinity & wait"),
    sh("touch /tmp/ready; sleep 100000 & wait $!"),
    sh("while true; do sleep 3600; done"),
    sh("echo begun; while :; do echo waiting; sleep 60; done"),
    sh("until false; do sleep 5; done"),
    sh("while sleep 3600; do :; done"),
    sh("while [ 1 ]; do sleep 10 & wait $!; done;"),
    sh("while true; do\n  sleep 60\ndone\n"),
    sh("while [ true ]\ndo\n  echo waiting\n  sleep 60\ndone"),
    sh("bash -c 'pip install x && sleep infinity'"),
]
DOES_NOT_WAIT: list[list[str]] = [
    [],
    ["sleep"],
    ["sleep", "$(TIME)"],
    ["tail", "-f", "/var/log/messages"],
    ["tail", "-f", "/var/log/messages", "/dev/null"],
    ["python3", "-c", "import time; time.sleep(1e9)"],
    ["/start.sh"],
    ["bash"],
    ["bash", "-c"],
    ["bash", "-c", "--"],
    ["bash", "-o"],
    ["bash", "", "sleep infinity"],
    ["sh", "/start.sh", "-c", "sleep infinity"],
    sh(""),
    sh("trap 'exit 0' TERM; while sleep 3600 & wait $!; do :; done"),
    sh("trap save TERM\nsleep infinity & wait"),
    sh(". /opt/traps.sh; sleep infinity"),
    sh("source /opt/traps.sh && sleep infinity"),
    sh('eval "$SETUP"; sleep infinity'),
    sh("python3 agent.py & sleep infinity"),
    sh("sleep infinity & python3 agent.py"),
    sh("while true; do sync.sh; sleep 5; done & sleep infinity"),
    sh("python3 train.py || sleep infinity"),
    sh("cat jobs | sleep infinity"),
    sh("sleep infinity && python3 train.py"),
    sh("sleep 60; python3 train.py"),
    sh("sleep infinity &"),
    sh("wait"),
    sh("(sleep infinity)"),
    sh("{ sleep infinity; }"),
    sh("while true; do sync.sh; sleep 5; done"),
    sh("while true; do echo $(sync.sh); sleep 5; done"),
    sh("while true; do echo x > /data/alive; sleep 5; done"),
    sh("while [ -e /tmp/go ]; do sleep 5; done"),
    sh("while true; do :; done; python3 x.py"),
    sh("for x in 1 2; do sleep 60; done"),
    sh("exec python3 agent.py; sleep infinity"),
    sh("python3 <<END\nsleep infinity\nEND"),
    sh("echo 'sleep infinity"),
    sh("done"),
]


@pytest.mark.parametrize(("size", "is_known"), [(32_000, True), (33_000, False), (1_000_000, False)])
def test_a_long_text_is_not_looked_through(size: int, is_known: bool) -> None:
    command = sh(f"echo {'x' * size}; sleep infinity")
    assert is_idle({"spec": {"containers": [{"name": "mpi", "command": command}]}}) == is_known


@pytest.mark.parametrize("words", WAITS, ids=" ".join)
def test_a_command_that_only_waits_is_known(words: list[str]) -> None:
    template = {"spec": {"containers": [{"name": "mpi", "command": words}]}}
    assert is_idle(template)
    template = {"spec": {"containers": [{"name": "mpi", "command": words[:1], "args": words[1:]}]}}
    assert is_idle(template)


@pytest.mark.parametrize("words", DOES_NOT_WAIT, ids=lambda words: " ".join(words) or "none")
def test_a_command_that_may_do_something_is_left_its_time(words: list[str]) -> None:
    assert not is_idle({"spec": {"containers": [{"name": "mpi", "command": words}]}})


@pytest.mark.parametrize(
    "changes",
    [
        {f"{SPEC}/containers/0/lifecycle": {"preStop": {"exec": {"command": ["save"]}}}},
        {f"{SPEC}/containers/0/lifecycle": {"stopSignal": "SIGUSR1"}},
        {f"{SPEC}/containers": [{"name": "mpi", "command": ["sleep", "inf"]}, {"name": "logs", "image": "logs"}]},
        {f"{SPEC}/initContainers": [{"name": "logs", "image": "logs", "restartPolicy": "Always"}]},
        {f"{SPEC}/terminationGracePeriodSeconds": 2},
        {f"{SPEC}/terminationGracePeriodSeconds": 0},
        {"spec/transport": "ssh"},
        {"spec/runMode": {"debug": {"enabled": True}}},
    ],
    ids=["preStop", "stopSignal", "container", "sidecar", "a grace of 2 s", "a grace of 0 s", "ssh", "debug"],
)
def test_a_pod_with_more_than_a_command_that_waits_keeps_its_grace(changes: Object) -> None:
    body = ended("v1", {**SLEEPS, **changes})
    assert graces(plans.plan(body, over(), *made(body))) == [None]


def ended(version: str, changes: Object | None = None, at: str = plans.START) -> Object:
    """A job whose end was noticed then."""
    succeeded = condition("Succeeded", at=at)
    return resource(version, CLEAN | SLEEPS | (changes or {}), CREATED, succeeded, completionTime=plans.START)


def made(body: Object, count: int = 2, *, is_resumed: bool = False, **more: Any) -> list[Object]:
    """Worker pods as they are made from the job's template."""
    job = read(body)
    assert isinstance(job, Job)
    role = effective(job, is_resumed=is_resumed).worker
    annotations = {"mpi-agents/template": objects.template_hash(role)}
    return workers(count, annotations=annotations, **more)


def over(phase: str = "Succeeded", *, code: int | None = 0, hub: int | None = 0, **more: Any) -> Object:
    """The launcher with its hub; a code of None: it runs."""
    found = launcher(phase, code=code, **more)
    found["spec"]["initContainers"] = [HUB_SPEC]
    state = {"running": {}} if hub is None else {"terminated": {"exitCode": hub, "finishedAt": plans.START}}
    found["status"]["initContainerStatuses"] = [{"name": "hub", "ready": False, "state": state}]
    return found


def graces(found: Plan) -> list[int | None]:
    return [
        one.grace_s
        for step in found.steps
        for one in step
        if isinstance(one, DeleteWorkers) or (isinstance(one, Delete) and "-worker-" in one.name)
    ]


@plans.DIALECTS
def test_waiting_workers_of_an_ended_job_go_at_once(version: str) -> None:
    body = ended(version)
    found = plans.plan(body, over(), *made(body))
    assert plans.steps(found) == [["delete all workers"]]
    assert graces(found) == [2]
    assert graces(plans.plan(body, over(), *made(body, 1))) == [2]
    assert graces(plans.plan(body, *made(body), **own(version))) == [2]


@plans.DIALECTS
def test_waiting_workers_are_kept_until_the_hub_has_ended_their_ranks(version: str) -> None:
    body = resource(version, CLEAN | SLEEPS | ELASTIC, READY, CREATED, RUNNING)
    hub_runs = over("Running", hub=None)
    first = plans.plan(body, hub_runs, *made(body))
    assert graces(first) == []
    assert first.requeue_at == plans.NOW + 35
    body = ended(version, at=LATE)
    assert graces(plans.plan(body, hub_runs, *made(body), now=plans.NOW + 34)) == []
    assert graces(plans.plan(body, over(), *made(body), now=plans.NOW + 1)) == [2]
    assert graces(plans.plan(body, hub_runs, *made(body), now=plans.NOW + 35)) == [None]


def test_other_workers_wait_for_no_hub() -> None:
    body = resource("v1", CLEAN | ELASTIC, READY, CREATED, RUNNING)
    hub_runs = over("Running", hub=None)
    assert graces(plans.plan(body, hub_runs, *made(body))) == [None]


@pytest.mark.parametrize(
    "left",
    [
        over("Failed", code=1, hub=137),
        over("Failed", code=None, hub=None, reason="NodeLost"),
        over(
            "Running", hub=None, beside=[{"name": "proxy", "ready": True, "restartCount": 0, "state": {"running": {}}}]
        ),
    ],
    ids=["the hub was killed", "its node is gone", "a proxy runs on"],
)
def test_in_doubt_about_the_ranks_the_workers_keep_their_grace(left: Object) -> None:
    body = ended("v1", at=LATE)
    if len(left["status"]["containerStatuses"]) > 1:
        left["spec"]["containers"].append({"name": "proxy"})
    assert graces(plans.plan(body, left, *made(body))) == [None]


@plans.DIALECTS
def test_past_its_deadline_the_launcher_ends_first(version: str) -> None:
    body = resource(version, CLEAN | SLEEPS | {"spec/runPolicy/activeDeadlineSeconds": 50}, READY, CREATED, RUNNING)
    found = plans.plan(body, over("Running", code=None, hub=None), *made(body))
    assert graces(found) == []
    assert found.requeue_at == plans.NOW + 35


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"mpi-agents/template": "other"}}},
        {"metadata": {"annotations": {}}},
        {"spec": {"containers": [{"name": "mpi"}, {"name": "proxy"}]}},
        {"spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}},
        {"spec": {"initContainers": [{"name": "clone"}]}, "status": {"phase": "Pending"}},
    ],
    ids=["of another template", "of no known one", "with a container", "with a sidecar", "in an init container"],
)
def test_one_worker_that_is_not_as_the_template_says_keeps_all_their_grace(change: Object) -> None:
    body = ended("v1")
    first, last = made(body)
    for part, values in change.items():
        last[part] |= values
    assert graces(plans.plan(body, over(), first, last)) == [None]


def test_our_own_sidecar_and_ended_workers_are_no_hindrance() -> None:
    body = ended("v1", {"spec/runPolicy/cleanPodPolicy": "All"})
    first, last = made(body)
    first["spec"]["initContainers"] = [{"name": "worker-agent", "restartPolicy": "Always"}]
    last["status"]["phase"] = "Failed"
    assert graces(plans.plan(body, over(), first, last)) == [2]


@plans.DIALECTS
def test_waiting_workers_of_a_suspended_job_go_when_the_launcher_has(version: str) -> None:
    body = resource(version, SUSPEND | SLEEPS, CREATED, condition("Suspended"))
    going = over("Running", code=None, hub=None, deleted=ENDING)
    more = own(version, BATCH_GOING)
    assert graces(plans.plan(body, going, *made(body), **more)) == []
    ends = over("Running", hub=None, deleted=ENDING)
    found = plans.plan(body, ends, *made(body), **more)
    assert graces(found) == []
    assert found.requeue_at == plans.NOW + 25
    assert graces(plans.plan(body, ends, *made(body), now=plans.NOW + 25, **more)) == [None]
    assert graces(plans.plan(body, over(deleted=ENDING), *made(body), **more)) == [2]
    assert graces(plans.plan(body, *made(body), **more)) == [2]
    never_began = launcher("Pending", deleted=ENDING)
    assert graces(plans.plan(body, never_began, *made(body), **more)) == [2]


def test_what_a_resumed_job_runs_counts_in_pods_of_before_and_after() -> None:
    resumed = {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["tail", "-f", "/dev/null"]}]}
    other = {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["serve"]}]}
    for pause, from_resumed, expected in [
        (resumed, False, 2), (resumed, True, 2), (other, False, 2), (other, True, None)
    ]:  # fmt: skip
        body = resource("v1", {"spec/runMode/pause": pause} | SLEEPS, CREATED, condition("Suspended"))
        assert graces(plans.plan(body, *made(body, is_resumed=from_resumed))) == [expected]


def test_t9ks_workers_wait_by_our_command_until_they_are_resumed_with_another() -> None:
    """Ours ends when it is told to, whatever the template says: its command is not used."""
    body = t9k_mpijob()
    body["metadata"] |= {
        "resourceVersion": "7",
        "managedFields": plans.OURS,
        "annotations": {"mpi-agents/transport": "exec"},
    }
    specs = [{"type": "worker", "command": ["sleep", "infinity"]}]
    body["spec"]["runMode"] = {"pause": {"enabled": True, "resumeSpecs": specs}}
    body["status"] = {"conditions": [CREATED, condition("Paused")]}
    for is_resumed, expected in ((False, None), (True, 2)):
        pods = made(body, is_resumed=is_resumed, container="mpi-worker")
        assert graces(plans.plan(body, *pods)) == [expected]
