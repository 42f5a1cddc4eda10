"""The launcher's pod ends: what its hub was told, and what happens to the job in the workers."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest
from running import DEADLINE_S, ROOT, WithHub, environment, run, start

from agents.playground import Cluster, ClusterError
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORKERS = [f"worker-{number}" for number in range(16)]
# As orted does it, with a process that is deaf to TERM beside one that is not.
DAEMONS = "(setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & setsid sleep 1000 &) >/dev/null 2>&1 </dev/null"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    for name in ("launcher", *WORKERS):
        shared.create_pod(name)
    yield shared
    for pod in ("launcher", *WORKERS):
        with contextlib.suppress(ClusterError):  # a test may have deleted it
            shared.delete_pod(pod)


@pytest.fixture
def make(cluster: Cluster, client: str, tmp_path: Path) -> Iterator[Callable[..., WithHub]]:
    agents: list[WithHub] = []
    with contextlib.ExitStack() as stack:

        def make(token: str | None = None, **environ: str) -> WithHub:
            about = {**environment(cluster, tmp_path, WORKERS, token), "POD_NAME": "launcher", **environ}
            agents.append(stack.enter_context(WithHub(about, client, tmp_path)))
            return agents[-1]

        yield make
    assert not any("internal error" in agent.log() for agent in agents)


def assert_nothing_left(cluster: Cluster, workers: list[str] = WORKERS) -> None:
    """What was killed may take the kernel a moment more."""
    until(lambda: not busy(cluster, workers), "nothing is left in any worker")


def tell_ending(agent: WithHub, *options: str) -> int:
    """Run the hub's preStop hook."""
    hook = [sys.executable, "-m", "rshagent.hub", "--ending", *options]
    return subprocess.run(hook, cwd=ROOT, env=agent.environ, check=False).returncode


def start_daemons(agent: WithHub, workers: list[str] = WORKERS) -> None:
    sessions = [start(agent, "-n", worker, DAEMONS) for worker in workers]
    for session in sessions:
        _, err = session.communicate(timeout=DEADLINE_S)
        assert (session.returncode, err) == (0, b"")


def busy(cluster: Cluster, workers: list[str] = WORKERS) -> list[str]:
    return [f"{worker}: {left}" for worker in workers if (left := cluster.leftovers(worker))]


def log_of(cluster: Cluster, pod: str, container: str) -> str:
    try:
        with open(f"{cluster.pod_folder(pod)}/{container}.log") as log:
            return log.read()
    except FileNotFoundError:
        return ""


def ask(cluster: Cluster, token: str, pod: str, *, method: str = "GET") -> bytes:
    """Ask the API about a pod: the stand-in's own way waits for the end of a deletion."""
    asked = urllib.request.Request(
        f"{cluster.url}/api/v1/namespaces/default/pods/{pod}",
        headers={"Authorization": f"Bearer {token}"},
        method=method,
    )
    with urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=cluster.ca)) as answer:
        return bytes(answer.read())


def make_deaf(cluster: Cluster, pod: str) -> None:
    """Have a pod's main container not end by SIGTERM: a deletion of the pod takes as long as its grace period."""
    command = ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"]
    spec = {"restartPolicy": "Never", "containers": [{"name": "worker", "image": "any", "command": command}]}
    cluster.delete_pod(pod)
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec})
    until(lambda: "deaf" in log_of(cluster, pod, "worker"), "its main container runs")


def until_ended(agent: WithHub) -> None:
    """The hub has ended by itself."""
    assert agent.process is not None
    assert agent.process.wait(DEADLINE_S) == 0, agent.log()


def sigterm(agent: WithHub) -> None:
    assert agent.process is not None
    agent.process.terminate()
    until_ended(agent)


def test_a_job_ends_with_its_main_container(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make()
    start_daemons(agent)
    attached = [start(agent, "-n", worker, "sleep 1000") for worker in WORKERS]
    cluster.until(lambda stats: stats["running"] >= len(WORKERS))
    assert tell_ending(agent) == 0
    refused = run(agent, "-n", "worker-0", "true")
    assert refused.returncode == 255
    assert refused.stderr == b"rshagent: the launcher's pod is being deleted: nothing is started any more\n"
    assert len(busy(cluster)) == len(WORKERS), "the job may end by itself"
    sigterm(agent)
    assert_nothing_left(cluster)
    assert "was terminated" not in agent.log(), "it was its pod that ended"
    for session in attached:
        session.communicate(timeout=DEADLINE_S)
        assert session.returncode == 143


def test_a_job_whose_main_container_does_not_end_is_ended_before_the_grace_is_over(
    cluster: Cluster, make: Callable[..., WithHub]
) -> None:
    agent = make(cluster.token("get pods/exec", "create pods/exec"))  # it may not read its own pod
    start_daemons(agent)
    attached = start(agent, "-n", "worker-3", "sleep 1000")
    cluster.until(lambda stats: stats["running"] >= 1)
    assert tell_ending(agent, "--grace", "8") == 0
    until_ended(agent)
    assert_nothing_left(cluster)
    attached.communicate(timeout=DEADLINE_S)
    assert attached.returncode == 143


def test_the_grace_period_is_the_pods_own_where_it_may_be_read(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make()
    start_daemons(agent, WORKERS[:2])
    make_deaf(cluster, "launcher")
    deleted = cluster.request("DELETE", "/api/v1/namespaces/default/pods/launcher", {"gracePeriodSeconds": 8})
    assert "deletionTimestamp" in deleted["metadata"]
    assert tell_ending(agent, "--grace", "3600") == 0
    until_ended(agent)
    assert_nothing_left(cluster)


def test_a_hub_that_was_not_told_before_sigterm_sweeps_all_the_same(
    cluster: Cluster, make: Callable[..., WithHub]
) -> None:
    agent = make()
    start_daemons(agent)
    sigterm(agent)
    assert_nothing_left(cluster)
    assert agent.log().count("the hub was terminated (SIGTERM); ending the job") == 1
    assert tell_ending(agent) == 1, "no hub is there any more"


def test_a_hub_in_the_place_of_one_that_died_sweeps_all_workers(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make()
    start_daemons(agent, WORKERS[:5])
    agent.kill()
    agent.start()
    sigterm(agent)
    assert_nothing_left(cluster)


def test_other_launchers_processes_are_theirs(cluster: Cluster, make: Callable[..., WithHub], tmp_path: Path) -> None:
    other = make(MPI_AGENT_LAUNCHER="other", MPI_AGENT_SOCKET=str(tmp_path / "other.sock"))
    start_daemons(other, WORKERS[:1])
    agent = make()
    start_daemons(agent, WORKERS[:1])
    theirs = len(cluster.leftovers("worker-0"))
    sigterm(agent)
    until(lambda: 0 < len(cluster.leftovers("worker-0")) < theirs, "the other launcher's stay")


def test_workers_that_have_ended_are_not_waited_for(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make()
    start_daemons(agent, WORKERS[:4])
    cluster.delete_pod("worker-0")
    cluster.set_state("worker-1", "succeeded")
    run(agent, "-n", "worker-0", "true", MPI_AGENT_LIMITS="")  # tells that the watch has seen it
    sigterm(agent)
    assert_nothing_left(cluster, WORKERS[2:4])
    assert "remaining processes in 2 workers" in agent.log()


def test_an_api_server_that_does_not_answer_holds_nobody_longer_than_the_grace(
    cluster: Cluster, make: Callable[..., WithHub]
) -> None:
    agent = make()
    start_daemons(agent, WORKERS[:1])
    cluster.listen(on=False)
    try:
        assert tell_ending(agent, "--grace", "3") == 0
        until_ended(agent)
    finally:
        cluster.listen(on=True)
    assert busy(cluster) != []


# Workers that go as well: where a job is deleted, so are its Role and its launcher's account --------------------------


def execs(cluster: Cluster) -> int:
    return int(cluster.stats()["requests"]["exec"])


def test_workers_that_are_being_deleted_are_left_to_their_kubelets(
    cluster: Cluster, make: Callable[..., WithHub]
) -> None:
    make_deaf(cluster, "worker-0")
    token = cluster.token()
    agent = make(token)
    start_daemons(agent, WORKERS[:1])
    ask(cluster, token, "worker-0?gracePeriodSeconds=3600", method="DELETE")
    cluster.revoke(token)
    sigterm(agent)
    assert "deletionTimestamp" in cluster.pod("worker-0")["metadata"], "the worker is there still"
    assert "left=" not in agent.log()


def test_a_session_in_a_worker_that_is_being_deleted_ends_as_it_was_told(
    cluster: Cluster, make: Callable[..., WithHub]
) -> None:
    make_deaf(cluster, "worker-0")
    token = cluster.token()
    agent = make(token)
    session = start(agent, "-n", "worker-0", "trap '' TERM; echo deaf; while :; do sleep 0.2; done")
    assert session.stdout is not None
    assert session.stdout.readline() == b"deaf\n"
    ask(cluster, token, "worker-0?gracePeriodSeconds=3600", method="DELETE")
    sigterm(agent)
    session.communicate(timeout=DEADLINE_S)
    assert session.returncode == 143


def test_a_worker_that_goes_meanwhile_is_not_waited_for(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make()
    start_daemons(agent, WORKERS[:2])
    cluster.fault("hang", pod="worker-0", times=None)
    before = execs(cluster)
    assert agent.process is not None
    agent.process.terminate()
    until(lambda: execs(cluster) >= before + 2, "both workers are asked")
    cluster.delete_pod("worker-0")
    until_ended(agent)
    cluster.clear_faults()
    assert "left=" not in agent.log()
    assert_nothing_left(cluster, WORKERS[1:2])


def test_a_container_that_is_gone_has_nothing_left(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make(cluster.token("get pods/exec", "create pods/exec"))  # it can't watch
    start_daemons(agent, WORKERS[:1])
    cluster.set_state("worker-0", "succeeded")
    sigterm(agent)
    assert "left=" not in agent.log()


def test_a_refusal_is_believed_after_a_while(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    token = cluster.token()
    agent = make(token)
    start_daemons(agent, WORKERS[:1])
    cluster.revoke(token)
    sigterm(agent)
    assert busy(cluster, WORKERS[:1])
    assert 'host=worker-0 left="its processes could not be ended: exec: the API server does not accept' in agent.log()


def test_trouble_on_the_way_to_a_living_worker_is_outlasted(cluster: Cluster, make: Callable[..., WithHub]) -> None:
    agent = make()
    start_daemons(agent, WORKERS[:2])
    for kind in ("http", "dial-error", "drop-after-upgrade"):
        cluster.fault(kind, pod="worker-0", status=403)
    sigterm(agent)
    assert_nothing_left(cluster, WORKERS[:2])
    assert "left=" not in agent.log()


# A batch Job's launcher: each retry is a pod of another name, and all are one launcher --------------------------------


@pytest.fixture
def retry(make: Callable[..., WithHub], tmp_path: Path) -> Callable[[str], WithHub]:
    """The hub of one such pod. Where the last one was a node away, numbers that tell instances apart may come again."""

    def retry(suffix: str) -> WithHub:
        socket = str(tmp_path / f"{suffix}.sock")
        return make(
            POD_NAME=f"launcher-{suffix}",
            MPI_AGENT_LAUNCHER="launcher",
            MPI_AGENT_INSTANCE="1-1",
            MPI_AGENT_SOCKET=socket,
        )

    return retry


def test_a_retry_ends_what_an_earlier_pod_left(cluster: Cluster, retry: Callable[[str], WithHub]) -> None:
    first = retry("aaaaa")
    start_daemons(first, WORKERS[:2])
    first.kill()  # with its node: it could end nothing
    second = retry("bbbbb")
    assert run(second, "-n", "worker-0", "exit 3").returncode == 3
    assert_nothing_left(cluster, WORKERS[:1])
    assert busy(cluster, WORKERS[1:2]), "a worker is cleaned when something is to run in it"
    earlier = {left.pid for left in cluster.leftovers("worker-1")}
    start_daemons(second, WORKERS[1:2])
    until(lambda: not earlier & {left.pid for left in cluster.leftovers("worker-1")}, "what was killed is gone")
    assert run(second, "-n", "worker-1", "exit 3").returncode == 3
    assert busy(cluster, WORKERS[1:2]), "its own stay"


def test_a_pod_that_ends_late_leaves_its_successors_processes_alone(
    cluster: Cluster, retry: Callable[[str], WithHub]
) -> None:
    first = retry("aaaaa")
    start_daemons(first, WORKERS[:1])
    second = retry("bbbbb")
    start_daemons(second, WORKERS[:1])
    theirs = {left.pid for left in cluster.leftovers("worker-0")}
    sigterm(first)
    assert {left.pid for left in cluster.leftovers("worker-0")} & theirs
    running = start(second, "-n", "worker-0", "echo up; sleep 1000")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"  # the first hub's sweep may still count among the stand-in's commands
    sigterm(second)
    assert_nothing_left(cluster, WORKERS[:1])
    running.communicate(timeout=DEADLINE_S)
