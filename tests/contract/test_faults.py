"""Every fault of the stand-in API server, against the hub: what the launcher sees, and what is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import termios
from typing import TYPE_CHECKING, Any

import pytest
from running import LIMITS, WORKERS, Agent, WithHub, environment, run, start

from agents.playground.cluster import Cluster, ClusterError
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def workers(cluster: Cluster) -> Iterator[list[str]]:
    cluster.clear_faults()
    for name in WORKERS:
        cluster.create_pod(name)
    yield WORKERS
    cluster.clear_faults()
    for name in WORKERS:
        with contextlib.suppress(ClusterError):  # a test may have deleted it
            cluster.delete_pod(name)


@pytest.fixture
def limits() -> str:
    return LIMITS


@pytest.fixture
def agent(cluster: Cluster, workers: list[str], client: str, tmp_path: Path, limits: str) -> Iterator[Agent]:
    environ = {**environment(cluster, tmp_path, workers), "MPI_AGENT_LIMITS": limits}
    with WithHub(environ, client, tmp_path) as agent:
        yield agent
    assert "internal error" not in agent.log()


# Where nothing heals, so that a test waits for the last try.
GIVES_UP_SOON = LIMITS.replace("start=20", "start=2").replace("settle=10", "settle=1").replace("reap=8", "reap=1")

# A fault that may heal: the command runs once, and nobody notices but the log.
HEALING: list[dict[str, Any]] = [
    {"kind": "drop-before-upgrade"},
    {"kind": "drop-after-upgrade"},
    {"kind": "drop-after-start"},
    {"kind": "dial-error"},
    {"kind": "http", "status": 401},
    {"kind": "http", "status": 409},
    {"kind": "http", "status": 429, "retry_after_s": 1},
    {"kind": "http", "status": 500},
    {"kind": "http", "status": 503, "times": 3},
    {"kind": "drop-before-upgrade", "times": 4},
    {"kind": "half-open", "after_bytes": 0},
    {"kind": "no-status"},  # settled: the worker kept the exit status
    {"kind": "drop-mid-stream", "after_bytes": 60},
    {"kind": "silent", "after_bytes": 60},
    {"kind": "half-open", "after_bytes": 60},
    {"kind": "raw", "after_bytes": 60, "data": b"\xff\xff\xff\xff"},
    {"kind": "raw", "after_bytes": 60, "data": b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff"},
    {"kind": "status", "data": b'{"status": "Failure", "message": "etcd is on holiday"}'},
    {"kind": "slow", "bytes_per_s": 20000},
]


@pytest.mark.parametrize("fault", HEALING, ids=lambda fault: "-".join(str(value) for value in fault.values()))
def test_a_fault_that_heals_is_not_the_launchers_matter(cluster: Cluster, agent: Agent, fault: dict[str, Any]) -> None:
    cluster.fault(pod="worker-0", **fault)
    # Only the exit code must survive all faults: output that was in a lost stream is lost with it.
    done = run(agent, "-n", "worker-0", "echo started >> ran; sleep 0.5; exit 7")
    assert done.returncode == 7, (done.stderr, agent.log())
    assert done.stderr == b""
    with open(cluster.pod_folder("worker-0") + "/home/ran") as ran:
        starts = ran.read().count("started")
    assert starts == 1, "one whose acknowledgement was lost is found, and not started again"
    until(lambda: not cluster.leftovers("worker-0"), "nothing is left in the worker")


@pytest.mark.parametrize(("code", "ends_with"), [(0, 255), (7, 7)])
def test_a_command_whose_output_is_lost_is_no_success(
    cluster: Cluster, agent: Agent, code: int, ends_with: int
) -> None:
    cluster.fault(pod="worker-0", kind="drop-mid-stream", after_bytes=60)
    line = "x" * 100
    waits = "until [ -e go ]; do sleep 0.05; done; rm go"
    process = start(agent, "-n", "worker-0", f"echo {line}; {waits}; echo {line}; exit {code}")
    assert process.stderr is not None
    told = process.stderr.readline().decode()
    assert told.startswith("rshagent: worker-0: the stream was lost; further output is unavailable")
    with open(cluster.pod_folder("worker-0") + "/home/go", "w"):
        _, err = process.communicate(timeout=60)
    assert process.returncode == ends_with, (err, agent.log())
    lines = [told, *err.decode().splitlines()]
    assert lines[1:] == (
        ["rshagent: worker-0: the command ended with 0, but the stream was lost, and output with it"]
        if code == 0
        else []
    )


FINAL: list[tuple[dict[str, Any], str]] = [
    (
        {"kind": "http", "status": 403, "text": 'cannot get resource "pods/exec"', "times": None},
        "The verb get is missing",
    ),
    ({"kind": "http", "status": 400}, "400"),
    ({"kind": "http", "status": 401, "times": None}, "401"),
    ({"kind": "http", "status": 500, "times": None}, "500"),
    ({"kind": "drop-before-upgrade", "times": None}, "API server"),
    ({"kind": "drop-after-upgrade", "times": None}, "connection"),
    ({"kind": "dial-error", "times": None}, "dialing backend"),
]


@pytest.mark.parametrize("limits", [GIVES_UP_SOON], ids=[""])
@pytest.mark.parametrize(
    ("fault", "words"), FINAL, ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else ""
)
def test_a_fault_that_stays_is_one_line_and_255(
    cluster: Cluster, agent: Agent, fault: dict[str, Any], words: str
) -> None:
    cluster.fault(pod="worker-0", **fault)
    done = run(agent, "-n", "worker-0", "echo unreached")
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 255, (done.stderr, agent.log())
    assert len(lines) == 1
    assert words in lines[0]
    assert done.stdout == b""
    cluster.clear_faults()
    assert run(agent, "-n", "worker-0", "exit 5").returncode == 5, "one session's end is no other's"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_the_remote_tree_and_becomes_an_exit_code(
    cluster: Cluster, agent: Agent, number: signal.Signals
) -> None:
    stubborn = "trap '' TERM; " if number == signal.SIGTERM else ""  # ends by KILL, 5 s later
    process = start(agent, "-n", "worker-0", f"sleep 1000 | ({stubborn}while :; do sleep 1; done)")
    until(lambda: len(cluster.leftovers("worker-0")) >= 5, "the command runs")
    process.send_signal(number)
    assert process.wait(90) == 128 + number
    process.communicate()
    until(lambda: not cluster.leftovers("worker-0"), "what asked and what reported the end is gone as well")


def test_other_signals_are_passed_on(cluster: Cluster, agent: Agent) -> None:
    process = start(agent, "-n", "worker-0", "trap 'echo got it; exit 4' USR1; echo ready; while :; do sleep 0.1; done")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=90)
    assert (process.returncode, out) == (4, b"got it\n")


def test_a_killed_client_is_a_dead_command(cluster: Cluster, workers: list[str], client: str, tmp_path: Path) -> None:
    with WithHub(environment(cluster, tmp_path, workers), client, tmp_path) as agent:
        process = start(agent, "-n", "worker-0", "setsid sleep 1000 & sleep 1001")
        until(lambda: len(cluster.leftovers("worker-0")) >= 5, "the command runs")
        process.kill()
        until(lambda: not cluster.leftovers("worker-0"), "its daemons are gone too")
        process.communicate()
        until(lambda: "result=client_died" in agent.log(), "the hub tells of it")


LOST = b"output with it"


@pytest.mark.parametrize("wrote", ["echo up; ", ""], ids=["after its first output", "before its first output"])
@pytest.mark.parametrize(
    "end",
    [
        ("exit 8", "", 8, b""),
        ("exit 0", "", 255, LOST),  # the next hub can't know what it wrote
        ("echo the result", "", 255, LOST),
        ("echo the result", "fail", 255, LOST),
        ("echo the result", "warn", 0, b"it ended with 0"),
        ("exit 8", "warn", 8, b""),
    ],
    ids=lambda end: f"{end[0]}, {end[1] or 'by default'}",
)
def test_a_hub_that_dies_is_followed_by_one_that_settles(
    cluster: Cluster, workers: list[str], client: str, tmp_path: Path, wrote: str, end: tuple[str, str, int, bytes]
) -> None:
    then, setting, code, said = end
    with WithHub(environment(cluster, tmp_path, workers), client, tmp_path) as agent:
        command = f"{wrote}while [ ! -e go ]; do sleep 0.1; done; rm go; {then}"
        process = start(agent, "-n", "worker-0", command, MPI_AGENT_LOST_OUTPUT=setting)
        if wrote:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
        else:
            until(lambda: len(cluster.leftovers("worker-0")) >= 3, "the command runs")
        agent.kill()
        agent.start()
        open(cluster.pod_folder("worker-0") + "/home/go", "w").close()
        out, err = process.communicate(timeout=90)
        assert (process.returncode, out) == (code, b"")
        assert said in err
        assert err.count(b"\n") == bool(said), "it is reported in one line"


@pytest.mark.parametrize("name", ["orted", "prted"])
def test_a_daemon_whose_ranks_write_elsewhere_goes_on_to_its_own_end(cluster: Cluster, agent: Agent, name: str) -> None:
    path = os.path.join(cluster.pod_folder("worker-0"), name)
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nsleep 0.5\n")
    os.chmod(path, 0o755)
    cluster.fault("no-status", pod="worker-0")
    done = run(agent, "-n", "worker-0", f" PATH=/x:$PATH ; export PATH ; {path} -mca ess env")
    assert done.returncode == 0, (done.stderr, agent.log())
    assert b"it ended with 0" in done.stderr


def test_stalled_readers_hold_little_and_nobody_up(
    cluster: Cluster, workers: list[str], client: str, tmp_path: Path
) -> None:
    count, each_kib = 80, 96  # what a session costs, and what it may keep; not the quarter of a MiB of a turn's bytes
    with WithHub(environment(cluster, tmp_path, workers), client, tmp_path) as agent:
        assert run(agent, "-n", "worker-0", "head -c 4M /dev/zero").returncode == 0
        assert agent.process is not None
        before = rss_kib(agent.process.pid)
        stalled = [start(agent, "-n", workers[number % 2], "yes") for number in range(count)]
        for process in stalled:
            assert process.stdout is not None
            until(lambda out=process.stdout: is_full(out.fileno()), "its pipe is full")  # type: ignore[misc]
        done = run(agent, "-n", "worker-0", "head -c 16M /dev/zero")
        assert (done.returncode, len(done.stdout)) == (0, 16 << 20)
        assert rss_kib(agent.process.pid) - before < count * each_kib
        for process in stalled:
            process.terminate()
        for process in stalled:
            process.communicate(timeout=90)


def is_full(pipe: int) -> bool:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) > 48 * 1024


def rss_kib(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Rss:"))


def _replace(cluster: Cluster) -> None:
    cluster.delete_pod("worker-0", streams="freeze")
    cluster.create_pod("worker-0")


GONE: dict[str, tuple[Callable[[Cluster], object], int, str]] = {
    "deleted": (lambda cluster: cluster.delete_pod("worker-0", streams="freeze"), 255, "deleted"),
    "replaced": (_replace, 255, "gone"),
    "oom": (lambda cluster: cluster.set_state("worker-0", "oom-killed"), 137, "OOMKilled"),
}


@pytest.mark.parametrize("how", GONE)
def test_a_worker_that_goes_ends_its_sessions_with_the_reason(
    cluster: Cluster, workers: list[str], client: str, tmp_path: Path, how: str
) -> None:
    with WithHub(environment(cluster, tmp_path, workers), client, tmp_path) as agent:
        process = start(agent, "-n", "worker-0", "echo up; sleep 1000")
        other = start(agent, "worker-1", "read line; exit 6")
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        act, code, word = GONE[how]
        act(cluster)
        _, err = process.communicate(timeout=90)
        assert process.returncode == code, (err, agent.log())
        if code == 255:
            assert word in err.decode() or "replaced" in err.decode()
            assert err.count(b"\n") == 1
        other.communicate(b"\n", 90)
        assert other.returncode == 6


def test_at_most_n_starts_are_under_way(cluster: Cluster, workers: list[str], client: str, tmp_path: Path) -> None:
    with WithHub(environment(cluster, tmp_path, workers), client, tmp_path, "--max-starts", "3") as agent:
        cluster.reset_stats()
        processes = [start(agent, "-n", workers[number % 2], "exit 2") for number in range(40)]
        assert {process.wait(90) for process in processes} == {2}
        assert cluster.stats()["peak_unacknowledged"] <= 3
        for process in processes:
            process.communicate()


def test_the_command_is_in_no_log(cluster: Cluster, workers: list[str], client: str, tmp_path: Path) -> None:
    environ = {**environment(cluster, tmp_path, workers), "MPI_AGENT_LIMITS": GIVES_UP_SOON}
    with WithHub(environ, client, tmp_path) as agent:
        run(agent, "-n", "worker-0", ": s3cret; exit 1")
        cluster.fault(
            "status",
            pod="worker-0",
            data=b'{"status":"Failure","message":"error executing command [/bin/sh -c s3cret], x"}',
        )
        run(agent, "-n", "worker-0", ": s3cret; exit 1")
        cluster.fault("http", pod="worker-0", status=500, times=None)
        run(agent, "-n", "worker-0", ": s3cret")
    assert "s3cret" not in agent.log()
    assert "worker-0" in agent.log()
