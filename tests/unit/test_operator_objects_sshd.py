"""How workers of ssh jobs start sshd, and at which ports it is looked for."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import job
from pod_objects import CONTAINER, SETTINGS, WORKER, Object, launcher, named, variables, worker

from agents.job.run_mode import effective
from agents.operator import objects
from agents.operator.objects.worker import ORDER
from agents.operator.settings import PodSettings

SSH: Object = {"spec/transport": "ssh"}
START = "/run/mpi-agents/ssh/sshd-start"
OURS = [START, "/usr/sbin/sshd", "-D", "-e", "-f", "/run/mpi-agents/ssh/sshd_config"]
SSHD = "/usr/sbin/sshd"
SHELL = ["/bin/sh", "-c", "mkdir -p /run/sshd; exec /usr/sbin/sshd -De"]


def changed(given: Object, spec: Object | None = None) -> Object:
    made = SSH | {f"{WORKER}/{CONTAINER}/{key}": value for key, value in given.items()}
    return made | {f"{WORKER}/template/spec/{key}": value for key, value in (spec or {}).items()}


def told(pod: Object, container: str = "worker-agent") -> Object:
    return variables(named(pod["spec"]["initContainers"], container))


@pytest.mark.parametrize(
    ("version", "given", "made", "host_keys", "has_own_config"),
    [
        ("v1", {}, {"command": OURS}, "job", False),
        ("v1", {"args": ["serve"]}, {"command": OURS}, "job", False),
        ("v2beta1", {}, {"command": OURS}, "job", False),
        ("v2beta1", {"command": [SSHD, "-De"]}, {"command": [START, SSHD, "-De"]}, "job", True),
        (
            "v2beta1",
            {"command": [SSHD], "args": ["-De", "-f", "/home/m/.sshd_config"]},
            {"command": [START, SSHD], "args": ["-De", "-f", "/home/m/.sshd_config"]},
            "job",
            True,
        ),
        # kubeflow's examples for MPICH and Intel: the image's entrypoint runs its arguments
        ("v2beta1", {"args": [SSHD, "-De"]}, {"args": [START, SSHD, "-De"]}, "job", True),
        ("v2beta1", {"command": SHELL}, {"command": SHELL}, "image", True),
        ("v2beta1", {"args": ["serve"]}, {"args": ["serve"]}, "image", True),
        ("v2beta1", {"command": ["/bin/notsshd"]}, {"command": ["/bin/notsshd"]}, "image", True),
    ],
)
def test_sshd_is_started_by_our_helper_where_it_is_known(
    version: str, given: Object, made: Object, host_keys: str, has_own_config: bool
) -> None:
    pod = worker(version, changed(given))
    container = pod["spec"]["containers"][0]
    assert {key: container[key] for key in ("command", "args") if key in container} == made
    for found in (told(pod), told(launcher(version, changed(given)), "kubectl-delivery")):
        assert found["MPI_SSH_HOST_KEYS"] == host_keys
        assert found.get("MPI_SSH_OWN_CONFIG", "false") == str(has_own_config).lower()


def test_sshd_is_the_jobs() -> None:
    made = worker("v2beta1", SSH | {"spec/ssh": {"sshdPath": "/opt/sbin/sshd"}})
    assert made["spec"]["containers"][0]["command"][1] == "/opt/sbin/sshd"


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        ({}, "2222"),
        ({"ports": [{"containerPort": 7}]}, "2222"),
        ({"readinessProbe": {"tcpSocket": {"port": 22}}}, "22"),  # or the pod would never be ready
        ({"ports": [{"name": "ssh", "containerPort": 7}], "livenessProbe": {"tcpSocket": {"port": "ssh"}}}, "7"),
        ({"readinessProbe": {"tcpSocket": {"port": "nobody"}}}, "2222"),
        ({"command": [SSHD, "-D"]}, "22 2222"),
        ({"command": [SSHD, "-Dp", "7", "-e"]}, "7"),
        ({"command": [SSHD], "args": ["-p7"]}, "7"),
        ({"command": [SSHD, "-f", "-p", "-o", "Port 7"]}, "7"),
        ({"command": [SSHD, "-oport=7"]}, "7"),
        ({"command": [SSHD, "-o", "PidFile=7", "-p", "$(PORT)"]}, "22 2222"),
        ({"command": [SSHD, "-p", "65535"]}, "65535"),
        ({"command": [SSHD, "-p", "65536"]}, "22 2222"),
        ({"command": [SSHD, "-p", "0"]}, "22 2222"),
        ({"command": [SSHD, "--port", "7"]}, "22 2222"),
        ({"command": SHELL}, "22 2222"),
        ({"command": SHELL, "readinessProbe": {"tcpSocket": {"port": 2222}}}, "2222 22"),
        (
            {
                "command": SHELL,
                "ports": [{"containerPort": 8080, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}],
                "readinessProbe": {"tcpSocket": {"port": 2022}},
            },
            "2022 8080 22 2222",
        ),
    ],
)
def test_ports_at_which_sshd_may_be(given: Object, ports: str) -> None:
    assert told(worker("v2beta1", changed(given)))["MPI_SSH_PORTS"] == ports
    assert told(launcher("v2beta1", changed(given)), "kubectl-delivery")["MPI_SSH_PORTS"] == ports


@pytest.mark.parametrize(
    ("given", "ports", "words"),
    [
        ({}, "30", OURS),
        ({"command": [SSHD, "-p", "7"]}, "7", [START, SSHD, "-p", "7"]),
        ({"command": [SSHD, "-De"]}, "30", [START, SSHD, "-De", "-p", "30"]),
        ({"args": [SSHD, "-De"]}, "30", [START, SSHD, "-De", "-p", "30"]),
        ({"command": [SSHD], "args": ["-De"]}, "30", [START, SSHD, "-De", "-p", "30"]),
        ({"command": SHELL}, "30", SHELL),
    ],
)
def test_a_port_that_is_chosen_is_told_to_sshd_too(given: Object, ports: str, words: list[str]) -> None:
    made = worker("v2beta1", changed(given) | {"spec/ssh": {"port": 30}})
    container = made["spec"]["containers"][0]
    assert told(made)["MPI_SSH_PORTS"] == ports
    assert container.get("command", []) + container.get("args", []) == words


@pytest.mark.parametrize(
    ("given", "ports", "declared"),
    [
        ({}, "25906", [25906]),
        ({"command": [SSHD, "-De"]}, "25906", [25906]),
        ({"command": [SSHD, "-p", "7"]}, "7", [7]),
        ({"command": [SSHD, "-p", "7"], "ports": [{"containerPort": 7}]}, "7", [7]),
        ({"command": SHELL}, "22 2222", []),
        ({"command": SHELL, "ports": [{"containerPort": 2022}]}, "2022", [2022]),  # at 22 is the node's own sshd
    ],
)
def test_on_the_nodes_network_each_job_has_its_port(given: Object, ports: str, declared: list[int]) -> None:
    made = worker("v2beta1", changed(given, {"hostNetwork": True}))
    found = told(made)
    assert found["MPI_SSH_PORTS"] == ports
    assert [one["containerPort"] for one in made["spec"]["containers"][0].get("ports", [])] == declared
    assert found["MPI_WORKER_PORT"] == "25907"


def test_on_the_nodes_network_a_port_that_the_job_names_is_not_its_agents() -> None:
    found = told(worker("v2beta1", changed({}, {"hostNetwork": True}) | {"spec/ssh": {"port": 25907}}))
    assert (found["MPI_SSH_PORTS"], found["MPI_WORKER_PORT"]) == ("25907", "25906")


def test_jobs_ports_on_the_nodes_network_never_meet_the_next_ones_agent() -> None:
    made = [
        told(worker("v2beta1", changed({}, {"hostNetwork": True}) | {"metadata/uid": f"u{number}"}))
        for number in range(200)
    ]
    ports = {int(one["MPI_SSH_PORTS"]) for one in made}
    assert all(20000 <= port < 30000 for port in ports)
    assert not ports & {int(one["MPI_WORKER_PORT"]) for one in made}
    assert len(ports) > 180


# Debugging.


def debugged(command: list[str] | None) -> tuple[Object, Object]:
    spec: list[Any] = [] if command is None else [{"type": "worker", "command": command}]
    found = effective(job("t9k", {"spec/runMode/debug": {"enabled": True, "replicaSpecs": spec}}), is_resumed=False)
    settings = PodSettings(image="mpi-agents:1", annotations={})
    return objects.launcher(found, settings), objects.worker(found, 0, settings)


@pytest.mark.parametrize(
    ("command", "waits"), [(None, True), (["/usr/bin/sshd", "-D"], True), (["sleep", "inf"], False)]
)
def test_no_sshd_is_waited_for_where_a_debugged_job_has_none(command: list[str] | None, waits: bool) -> None:
    launched, made = debugged(command)
    assert (told(launched, "kubectl-delivery").get("MPI_AGENT_WAIT") != "false") is waits
    assert ("readinessProbe" in named(made["spec"]["initContainers"], "worker-agent")) is waits
    assert made["spec"]["containers"][0]["command"] == (OURS if waits else command)


@pytest.mark.parametrize(("given", "order"), [({}, "debug"), ({ORDER: "run"}, "run")])
def test_a_debugged_jobs_worker_agents_end_nothing(given: dict[str, str], order: str) -> None:
    debug = {"spec/runMode/debug": {"enabled": True}}
    own = {f"{WORKER}/template/metadata": {"annotations": given}} if given else {}
    for changes, wanted in ((debug | own, order), (own, given.get(ORDER))):
        made = objects.worker(effective(job("v2beta1", SSH | changes), is_resumed=False), 0, SETTINGS)
        assert made["metadata"]["annotations"].get(ORDER) == wanted
