"""What ssh jobs' pods have beside the user's template, by whose uid it is prepared, and what they don't have."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from mpijobs import annotated, job
from pod_objects import CONTAINER, LAUNCHER, SETTINGS, WORKER, Object, launcher, named, variables, worker

from agents.operator import objects
from agents.operator.settings import PodSettings

if TYPE_CHECKING:
    from pathlib import Path

SSH: Object = {"spec/transport": "ssh"}
SPEC = f"{WORKER}/template/spec"
INSIDE = ["/run/mpi-agents/ssh/sshd-start", "--when-ready"]
OWN = f"{WORKER}/{CONTAINER}/securityContext"
PLATFORMS = PodSettings(image="mpi-agents:1", annotations={}, run_as_user=None)


def agent(changes: Object, settings: PodSettings = SETTINGS) -> Object:
    made = objects.worker(job("v2beta1", SSH | changes), 0, settings)
    return named(made["spec"]["initContainers"], "worker-agent")


def mounted(pod: Object, container: int = 0) -> dict[str, str]:
    """Path → what of which volume."""
    mounts = pod["spec"]["containers"][container].get("volumeMounts", [])
    return {one["mountPath"]: f"{one['name']}/{one.get('subPath', '')}" for one in mounts}


# Users.


@pytest.mark.parametrize(
    ("changes", "settings", "context", "known", "passwd"),
    [
        ({}, SETTINGS, (False, 0, None), "assumed", "image"),
        ({f"{SPEC}/securityContext": {"runAsUser": 1000}}, SETTINGS, (True, 1000, None), "named", "image"),
        (
            {f"{SPEC}/securityContext": {"runAsUser": 7}, OWN: {"runAsUser": 1000, "runAsGroup": 9}},
            SETTINGS,
            (True, 1000, 9),
            "named",
            "image",
        ),
        ({OWN: {"runAsUser": 0}}, SETTINGS, (False, 0, None), "named", "image"),
        ({OWN: {"runAsUser": 0}}, PLATFORMS, (False, 0, None), "named", "image"),
        ({OWN: {"runAsUser": 9999}}, SETTINGS, (True, 9999, None), "named", "image"),
        ({OWN: {"runAsUser": 10000}}, SETTINGS, (True, 10000, None), "named", "generated"),
        ({OWN: {"runAsNonRoot": True}}, SETTINGS, (True, None, None), "unknown", "image"),
        ({f"{SPEC}/securityContext": {"runAsNonRoot": True}}, SETTINGS, (True, None, None), "unknown", "image"),
        (
            {f"{SPEC}/securityContext": {"runAsNonRoot": True}, OWN: {"runAsNonRoot": False}},
            SETTINGS,
            (False, 0, None),
            "assumed",
            "image",
        ),
        ({}, PLATFORMS, (True, None, None), "unknown", "generated"),
        ({OWN: {"runAsUser": 10000}, "spec/ssh": {"passwd": "image"}}, SETTINGS, (True, 10000, None), "named", "image"),
        (annotated(ssh_passwd="generated"), SETTINGS, (False, 0, None), "assumed", "generated"),
        ({OWN: {"runAsUser": "1000"}}, SETTINGS, (False, 0, None), "assumed", "image"),  # the API server refuses it
    ],
)
def test_ssh_is_prepared_by_the_uid_of_the_users_container(
    changes: Object, settings: PodSettings, context: tuple[bool, int | None, int | None], known: str, passwd: str
) -> None:
    made = agent(changes, settings)
    found = made["securityContext"]
    assert (found["runAsNonRoot"], found.get("runAsUser"), found.get("runAsGroup")) == context
    assert variables(made)["MPI_SSH_USER"] == known
    assert variables(made)["MPI_SSH_PASSWD"] == passwd


def test_launcher_and_workers_may_have_different_uids() -> None:
    changes = SSH | {f"{LAUNCHER}/{CONTAINER}/securityContext": {"runAsUser": 1000}}
    delivery = named(launcher("v2beta1", changes)["spec"]["initContainers"], "kubectl-delivery")
    assert delivery["securityContext"]["runAsUser"] == 1000
    assert agent(changes)["securityContext"]["runAsUser"] == 0


@pytest.mark.parametrize(("user", "has_it"), [(None, True), (0, True), (1000, False)])
def test_sshds_folder_is_there_for_root_in_workers(user: int | None, has_it: bool) -> None:
    context = {} if user is None else {"runAsUser": user}
    changes = SSH | {f"{role}/template/spec/securityContext": context for role in (LAUNCHER, WORKER)}
    assert ("/run/sshd" in mounted(worker("v2beta1", changes))) is has_it
    assert "/run/sshd" not in mounted(launcher("v2beta1", changes))


# The launcher's wait.


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        (["mpirun"], ["-n", "$(RANKS)"], [*INSIDE, "mpirun"]),
        (["sh", "-c", "mpirun $(PROGRAM)"], None, [*INSIDE, "sh", "-c", "mpirun $(PROGRAM)"]),
        (None, ["-n", "2"], None),
        (None, None, None),
    ],
)
def test_a_launcher_whose_command_is_known_waits_inside(
    command: list[str] | None, args: list[str] | None, expected: list[str] | None
) -> None:
    given = (
        {"name": "mpi", "image": "theirs"}
        | ({"command": command} if command else {})
        | ({"args": args} if args else {})
    )
    spec = launcher("v2beta1", SSH | {f"{LAUNCHER}/{CONTAINER}": given})["spec"]
    delivery = named(spec["initContainers"], "kubectl-delivery")
    assert spec["containers"][0].get("command") == expected
    assert spec["containers"][0].get("args") == args
    assert delivery.get("restartPolicy") == ("Always" if expected else None)
    assert ("lifecycle" in delivery) is bool(expected)
    assert variables(delivery).get("MPI_AGENT_STAYS") == ("true" if expected else None)


@pytest.mark.parametrize("has_agent", [True, False])
def test_a_launcher_takes_new_keys_if_its_workers_do(has_agent: bool) -> None:
    changes = SSH | {"spec/workerAgent": has_agent, f"{LAUNCHER}/{CONTAINER}/command": ["mpirun"]}
    delivery = named(launcher("v2beta1", changes)["spec"]["initContainers"], "kubectl-delivery")
    assert variables(delivery).get("MPI_SSH_FOLLOW") == ("true" if has_agent else None)


# Mounts.


@pytest.mark.parametrize("path", ["/root/.ssh", "/root/.ssh/"])
def test_keys_of_the_users_own_stay_where_they_are(path: str) -> None:
    mounts = [{"name": "mine", "mountPath": path}]
    changes = {f"{WORKER}/{CONTAINER}/volumeMounts": mounts, f"{SPEC}/volumes": [{"name": "mine", "emptyDir": {}}]}
    found = mounted(worker("v2beta1", SSH | changes))
    assert found[path] == "mine/"
    assert sorted(found) == sorted([path, "/run/mpi-agents/ssh", "/run/sshd"])


def test_the_main_container_alone_has_ssh() -> None:
    both = [{"name": "log", "image": "i"}, {"name": "train", "image": "i"}]
    made = worker("v2beta1", SSH | {f"{SPEC}/containers": both, "spec/mainContainer": "train"})
    assert mounted(made) == {}
    assert "/root/.ssh" in mounted(made, 1)
    assert "command" not in made["spec"]["containers"][0]


# Rights.


def test_a_users_own_service_account_stays() -> None:
    changes = SSH | {f"{LAUNCHER}/template/spec/serviceAccountName": "mine"}
    assert launcher("v2beta1", changes)["spec"]["serviceAccountName"] == "mine"


def test_a_token_that_the_user_asks_for_has_no_rights_of_the_jobs() -> None:
    asked = {f"{LAUNCHER}/template/spec/automountServiceAccountToken": True}
    assert objects.has_api_token(job("v2beta1", {"spec/transport": "exec"} | asked)) is True
    assert objects.has_api_token(job("v2beta1", SSH | asked)) is False


# The worker agent.


@pytest.mark.parametrize(
    ("transport", "asked", "is_default", "container"),
    [
        ("ssh", None, True, "worker-agent"),
        ("ssh", None, False, "sshd-bootstrap"),
        ("ssh", False, True, "sshd-bootstrap"),
        ("ssh", True, False, "worker-agent"),
        ("exec", None, True, None),
        ("exec", False, True, None),
        ("exec", True, False, "worker-agent"),
    ],
)
def test_the_worker_agent_can_be_left_out(
    transport: str, asked: bool | None, is_default: bool, container: str | None
) -> None:
    changes = {"spec/transport": transport} | ({} if asked is None else {"spec/workerAgent": asked})
    settings = PodSettings(image="i", annotations={}, has_worker_agent=is_default)
    spec = objects.worker(job("v2beta1", changes), 0, settings)["spec"]
    assert [one["name"] for one in spec.get("initContainers", [])] == ([container] if container else [])


def test_the_worker_agent_stands_behind_the_users_init_containers() -> None:
    given = [{"name": "worker-agent", "image": "theirs"}, {"name": "data", "image": "theirs"}]
    made = worker("v2beta1", SSH | {f"{SPEC}/initContainers": given})
    assert [one["name"] for one in made["spec"]["initContainers"]] == ["worker-agent", "data", "worker-agent-2"]


@pytest.mark.parametrize("transport", ["exec", "ssh"])
@pytest.mark.parametrize(
    ("changes", "is_shared"),
    [
        ({}, None),
        ({"spec/workerAgent": True}, None),
        ({f"{SPEC}/shareProcessNamespace": True}, True),
        ({"spec/workerAgent": {"processes": True}}, True),
        ({"spec/workerAgent": {"processes": True}, f"{SPEC}/shareProcessNamespace": False}, False),
        ({"spec/workerAgent": {"processes": True}, f"{SPEC}/hostPID": True}, None),  # that includes the pod's own
    ],
)
def test_processes_are_shared_only_where_the_user_says_so(
    transport: str, changes: Object, is_shared: bool | None
) -> None:
    changes = {"spec/transport": transport, **changes}
    made = worker("v2beta1", changes)["spec"]
    assert made.get("shareProcessNamespace") is is_shared
    assert ("spec/workerAgent" in changes or transport == "ssh") is ("worker-agent" in str(made.get("initContainers")))
    assert "shareProcessNamespace" not in launcher("v2beta1", changes)["spec"]


@pytest.mark.parametrize(
    ("changes", "capabilities"),
    [
        ({}, None),
        ({"securityContext": {"capabilities": {"drop": ["ALL"]}}}, {"drop": ["ALL"]}),
        ({"securityContext": {"runAsUser": 0, "capabilities": {"add": ["IPC_LOCK"]}}}, {"add": ["IPC_LOCK"]}),
        ({"securityContext": {"runAsUser": 1000, "capabilities": {"add": ["IPC_LOCK"]}}}, {"drop": ["ALL"]}),
    ],
)
@pytest.mark.parametrize("transport", ["exec", "ssh"])
def test_an_agent_of_roots_ranks_has_their_capabilities(
    transport: str, changes: Object, capabilities: Object | None
) -> None:
    changes = {f"{WORKER}/{CONTAINER}/{key}": value for key, value in changes.items()}
    changes |= {"spec/transport": transport, "spec/workerAgent": {"processes": True}}
    (agent,) = worker("v2beta1", changes)["spec"]["initContainers"]
    assert agent["securityContext"].get("capabilities") == capabilities
    assert agent["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize("name", ["worker_agent", "bootstrap"])
def test_a_guaranteed_worker_stays_guaranteed(name: str) -> None:
    limits = {f"{WORKER}/{CONTAINER}/resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}
    settings = PodSettings(image="i", annotations={}, has_worker_agent=name == "worker_agent")
    guest = objects.worker(job("v2beta1", SSH | limits), 0, settings)["spec"]["initContainers"][0]
    assert guest["resources"]["requests"] == guest["resources"]["limits"] == {"cpu": "200m", "memory": "48Mi"}
    guest = objects.worker(job("v2beta1", SSH), 0, settings)["spec"]["initContainers"][0]
    assert guest["resources"] == {
        "requests": {"cpu": "10m" if name == "worker_agent" else "50m", "memory": "32Mi"},
        "limits": {"cpu": "1", "memory": "48Mi"},
    }


# A launcher that is a worker too.


@pytest.mark.parametrize("domain", ["", "example.org"])
def test_intel_mpi_starts_what_is_its_own_without_ssh(tmp_path: Path, domain: str) -> None:
    settings = PodSettings(image="i", annotations={}, cluster_domain=domain)
    changes = SSH | {"spec/runLauncherAsWorker": True, "spec/mpiImplementation": "Intel"}
    made, pod = job("v2beta1", changes), launcher("v2beta1", changes, settings)
    assert variables(pod["spec"]["containers"][0])["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == "/etc/mpi/ssh.sh"
    items = next(one for one in pod["spec"]["volumes"] if "configMap" in one)["configMap"]["items"]
    assert {"key": "ssh.sh", "path": "ssh.sh", "mode": 0o555} in items
    data = objects.config_map(made, settings, [0])["data"]
    own, other = (line.partition(":")[0] for line in data["hostfile"].splitlines())
    (tmp_path / "ssh.sh").write_text(data["ssh.sh"])
    (tmp_path / "ssh").write_text('#!/bin/sh\necho ssh "$@"\n')
    (tmp_path / "ssh").chmod(0o755)

    def said(*words: str) -> str:
        command = ["/bin/sh", str(tmp_path / "ssh.sh"), "-q", "-F", "/a b", *words]
        environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        return subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout

    assert said("-x", own, "echo", "as ssh:", "'two", "words'") == "as ssh: two words\n"
    assert said("-x", other, "proxy", "--host", own) == f"ssh -q -F /a b -x {other} proxy --host {own}\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"spec/runLauncherAsWorker": False, "spec/mpiImplementation": "Intel"},
        {"spec/runLauncherAsWorker": True, "spec/mpiImplementation": "MPICH"},
        {"spec/runLauncherAsWorker": True, "spec/mpiImplementation": "Intel", "spec/transport": "exec"},
    ],
)
def test_all_others_call_ssh_or_the_agent_itself(changes: dict[str, object]) -> None:
    made = job("v2beta1", SSH | changes)
    assert "ssh.sh" not in objects.config_map(made, SETTINGS, [0])["data"]
    assert "ssh.sh" not in str(objects.launcher(made, SETTINGS))


# Elastic jobs.


def test_running_workers_alone_are_told_to_elastic_jobs() -> None:
    made = job("v2beta1", SSH | {"spec/slotsPerWorker": 2})
    data = objects.config_map(made, SETTINGS, [0, 1, 2], [0, 2])["data"]
    assert data["hostfile"].count("\n") == 3
    assert data["discover_hosts.sh"] == (
        "#!/bin/sh\necho pi-worker-0.pi.default.svc:2\necho pi-worker-2.pi.default.svc:2\n"
    )
    assert "kubexec.sh" not in data
    assert objects.config_map(made, SETTINGS, [], [])["data"]["discover_hosts.sh"] == "#!/bin/sh\n"
