"""Real launchers start real ranks through client and hub; and what is left of them, however they end."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from launcher_job import Job
from launching import Running, until

from agents.playground import wheels
from agents.playground.cluster import Cluster
from agents.playground.launchers import LAUNCHERS, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., Running]

ALL = ["openmpi5", "openmpi4", "mpich", "impi", "horovod"]
MPI = [name for name in ALL if LAUNCHERS[name].mpi]
# Open MPI 4's agents return as soon as the daemon is up; the others' live as long as the job.
ATTACHED = ["openmpi5", "mpich", "impi"]

# Ranks wait for a file: a test can do things in mid-job, and no rank ends before the last has started. Open MPI 5 may
# wait for ever when one does, whatever the agent: at a hundred hosts most times, at two hardly ever.
WAIT = 'while [ ! -e "$1" ]; do sleep 0.1; done; echo "over"; exit "${2:-0}"'
WAITING = f'echo "at $(uname -n)"; {WAIT}'


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Make the stage for a launcher; with a program, start it."""
    clusters: list[Cluster] = []

    def started(name: str, *program: str, workers: int = 2, **how: Any) -> Running:
        launcher = LAUNCHERS[name]
        if name == "impi" and platform.machine() != "x86_64":
            pytest.skip("Intel MPI is for x86_64 alone")
        prefix = wheels.installed(launcher, print)
        cluster = Cluster(tmp_path / "c", environ=launcher.environment(prefix, os.defpath))
        clusters.append(cluster)
        cluster.start()
        job = Job(cluster, launcher, workers=workers)
        job.create(worker_environ=how.pop("worker_environ", {}))
        job.build_client()
        job.start_hub()
        job.deliver(subprocess.DEVNULL)
        running = Running(job, tmp_path)
        return running.start(program, **how) if program else running

    yield started
    for cluster in clusters:
        cluster.close()


def hosts_told(running: Running) -> set[str]:
    """The hosts that ranks said they are on; all, where pods can't have host names of their own."""
    workers = set(running.job.workers)
    if not running.job.cluster.hostnames:
        return workers
    return set(re.findall(r"\bat (\S+)", running.output))


# Ranks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MPI)
@pytest.mark.parametrize("workers", [2, 8])
def test_an_mpi_program_computes_across_workers(start: Start, name: str, workers: int) -> None:
    running = start(name, "python", f"{PROGRAMS}/pi.py", workers=workers)
    assert running.end() == 0, running.errors
    assert "right" in running.output
    ranks = set(re.findall(r"rank (\d+) of (\d+) on (\S+) has", running.output))
    assert {(number, size) for number, size, _host in ranks} == {(str(n), str(workers)) for n in range(workers)}
    if running.job.cluster.hostnames:
        assert {host for *_, host in ranks} == set(running.job.workers)
    running.assert_nothing_left()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("workers", [2, 8, 70, 130])
def test_every_worker_gets_a_rank_from_the_launcher_itself(
    start: Start, name: str, workers: int, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    running = start(name, "sh", "-c", WAITING, "sh", str(end), workers=workers)
    running.until_output("at ", workers, 120)
    end.touch()
    assert running.end() == 0, running.errors
    assert running.output.count("over") == workers
    assert hosts_told(running) == set(running.job.workers)
    calls = running.sessions_by_host()
    assert set(calls) == set(running.job.workers)
    if LAUNCHERS[name].mpi:  # one call a worker, all from the launcher: no tree
        assert set(calls.values()) == {1}
    assert running.job.cluster.stats()["requests"]["exec"] == sum(calls.values())
    running.assert_nothing_left()


# Ends -----------------------------------------------------------------------------------------------------------------


# One rank: when it has to end others, Intel MPI may say 255 instead. Horovod has 1 for all that fails.
@pytest.mark.parametrize(
    ("name", "code"), [("openmpi5", 3), ("openmpi4", 3), ("mpich", 3), ("impi", 3), ("horovod", 1)]
)
def test_an_applications_exit_code_comes_back(start: Start, name: str, code: int, tmp_path: Path) -> None:
    end = tmp_path / "end"
    running = start(name, "sh", "-c", WAITING, "sh", str(end), "3", ranks=1)
    running.until_output("at ")
    end.touch()
    assert running.end() == code, running.errors
    running.assert_nothing_left()


@pytest.mark.parametrize("name", ALL)
def test_ctrl_c_ends_all_ranks(start: Start, name: str, tmp_path: Path) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", str(tmp_path / "never"))
    running.until_output("at ", 2)
    running.process.signal_group(signal.SIGINT)
    code = running.end()
    running.assert_nothing_left()
    assert "over" not in running.output
    if name == "horovod":
        # Two threads of each of its processes wait for the agent's shell (psutil's wait and Popen's), and Popen takes
        # an end that the other has reaped for a 0. So its own code says nothing here, and the hub's log is what tells.
        assert code in (0, 1), running.errors
        assert {one["host"] for one in running.until_ended(2, "signalled", "client_died")} == set(running.job.workers)
    else:
        assert code != 0, running.errors


@pytest.mark.parametrize("name", ALL)
def test_a_killed_launcher_leaves_nothing(start: Start, name: str, tmp_path: Path) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", str(tmp_path / "never"))
    running.until_output("at ", 2)
    running.process.kill()
    assert running.end() == 128 + signal.SIGKILL
    running.assert_nothing_left()
    until(lambda: not running.agents(), "the agents have ended")


@pytest.mark.parametrize("name", [*ATTACHED, "horovod"])
def test_a_killed_agent_ends_its_worker(start: Start, name: str, tmp_path: Path) -> None:
    running = start(name, "sh", "-c", WAITING, "sh", str(tmp_path / "never"))
    running.until_output("at ", 2)
    os.kill(running.agents()[0], signal.SIGKILL)
    code = running.end()
    running.assert_nothing_left()
    # Open MPI 5 takes an agent that died of a signal for one that did well: its bug, so the hub's log is what tells.
    assert (code == 0) is (name == "openmpi5"), running.errors
    assert "over" not in running.output
    until(lambda: [one for one in running.sessions() if one["result"] != "ok"], "the hub has logged it")


# What launchers meet --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_noise_in_a_worker_does_no_harm(start: Start, name: str, tmp_path: Path) -> None:
    # The dynamic loader then complains on stderr in every process, /bin/sh and the launcher's daemons among them.
    noise = {"LD_PRELOAD": "/nowhere/noise.so"}
    end = tmp_path / "end"
    running = start(name, "sh", "-c", WAITING, "sh", str(end), worker_environ=noise)
    running.until_output("at ", 2)
    end.touch()
    assert running.end() == 0, running.errors
    assert "/nowhere/noise.so" in running.errors + running.output
    running.assert_nothing_left()


@pytest.mark.parametrize(("name", "lines"), [("openmpi5", 10), ("openmpi4", 2000), ("mpich", 2000), ("impi", 2000)])
def test_stdin_reaches_the_first_rank(start: Start, name: str, lines: int, tmp_path: Path) -> None:
    """Whatever the agent, Open MPI 5 loses what is more than a kilobyte or so, and the end (openpmix/prrte#2220)."""
    text = "".join(f"line {number}\n" for number in range(lines))
    (tmp_path / "stdin").write_text(text)
    end = tmp_path / "end"
    first = f'head -n {lines}; echo "read"'
    program = f'if [ "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = 0 ]; then {first}; else echo "up" >&2; fi; {WAIT}'
    with open(tmp_path / "stdin", "rb") as stdin:
        running = start(name, "sh", "-c", program, "sh", str(end), stdin=stdin)
        running.until_output("read\n")
        until(lambda: "up\n" in running.errors, "the other rank has started")
        assert running.output == f"{text}read\n"
        end.touch()
        assert running.end() == 0, running.errors
    running.assert_nothing_left()


@pytest.mark.parametrize("name", ALL)
def test_a_command_of_100_kb(start: Start, name: str, tmp_path: Path) -> None:
    end = tmp_path / "end"
    program = f'echo "${{#3}} bytes"; {WAIT}'
    running = start(name, "sh", "-c", program, "sh", str(end), "0", "x" * 100_000)
    running.until_output("100000 bytes", 2)
    end.touch()
    assert running.end() == 0, running.errors
    running.assert_nothing_left()


@pytest.mark.parametrize(("ranks", "code"), [(2, 0), (1, 3)])
@pytest.mark.parametrize("name", ATTACHED)
def test_a_lost_stream_does_not_end_the_job(start: Start, name: str, ranks: int, code: int, tmp_path: Path) -> None:
    """The hub asks the worker, waits for the daemon's end and takes the status that was kept there."""
    end = tmp_path / "end"
    running = start(name, "sh", "-c", WAITING, "sh", str(end), str(code), ranks=ranks)
    running.until_output("at ", ranks)
    assert running.job.cluster.streams("cut", running.job.workers[0]) == 1
    end.touch()
    assert running.end() == code, running.errors
    assert running.output.count("over") == ranks
    running.assert_nothing_left()
