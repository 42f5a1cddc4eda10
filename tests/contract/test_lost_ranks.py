"""Open MPI 5's mpirun exits with 0 although it lost a daemon: the hub says so at its end, for its last mpirun alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from launching import WAITING, Gate, start

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from launching import Running, Start

    from agents.playground.pod_process import PodProcess

__all__ = ["start"]

DEADLINE_S = 60.0


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; one of them may end with the one before it."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Script:
    """A script in the launcher's container that calls mpirun; each call's ranks wait at a gate of its own."""

    def __init__(self, running: Running, text: str, folder: Path) -> None:
        """`text`: MPIRUN_1 and MPIRUN_2 are the calls, of a rank for each of two workers."""
        self.running, job = running, running.job
        self._out = folder / "script"
        self.gates = {call: Gate(folder / f"gate-{call}") for call in ("1", "2")}

        def call(match: re.Match[str]) -> str:
            program = ["sh", "-c", f"echo call {match[1]}; {WAITING}", "sh", self.gates[match[1]].path]
            return shlex.join(job.launcher.command(2, len(job.workers), job.folders.hostfile, program))

        script = re.sub(r"MPIRUN_(\d)", call, text)
        with open(self._out, "wb") as out:
            self.process: PodProcess = job.cluster.exec_local(
                job.pod, ["/bin/sh", "-c", script], env=job.launcher_environment(),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def until_runs(self, call: int) -> None:
        """Wait until both ranks of a call have started."""

        def runs() -> bool:
            assert self.process.poll() is None, self._out.read_text(errors="replace")
            return self._out.read_text(errors="replace").count(f"call {call}") == 2

        until(runs, f"the ranks of call {call} have started", DEADLINE_S)

    def go(self, call: int) -> None:
        """Let the ranks of a call end."""
        self.gates[str(call)].open()

    def kill_daemons(self, worker: int) -> None:
        """Kill what a daemon's session consists of."""
        job = self.running.job
        lines = [one for one in job.cluster.leftovers(job.workers[worker]) if one.argv]
        found = sorted(one.pid for one in lines if one.argv[0].endswith("prted"))
        signal_all(found, signal.SIGKILL)

    def signal_mpirun(self, number: signal.Signals) -> None:
        """Send a signal to what mpirun consists of."""
        job = self.running.job
        found = [one for one in job.cluster.leftovers(job.pod) if one.argv]
        signal_all((one.pid for one in found if one.argv[0].endswith(("prterun", "mpirun"))), number)

    def lost(self) -> dict[str, Any]:
        """What the hub says of lost ranks, once the script and then the hub have ended."""
        assert self.process.wait(DEADLINE_S) == 0, self._out.read_text(errors="replace")
        assert self.running.job.stop_hub() == 0
        with open(self.running.job.hub_termination_log, encoding="utf-8") as file:
            message = file.read()
        return dict(json.loads(message)["ranksLost"]) if message else {}


StartScript = Callable[..., Script]


@pytest.fixture
def script(start: Start, tmp_path: Path) -> Iterator[StartScript]:
    """Start a script of mpirun's of Open MPI 5, with two workers. One that learns of the loss in time fails."""
    made: list[Script] = []

    def started(text: str, launcher: str = "openmpi5") -> Script:
        made.append(Script(start(launcher), text, tmp_path))
        return made[-1]

    yield started
    for one in made:
        for gate in one.gates.values():
            gate.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [("true", '{"version": 1, "sessions": 0}'), ("MPIRUN_1", ""), ("KUBEXEC pi-worker-0 true", "")],
    ids=["nothing", "mpirun", "a command"],
)
def test_a_hub_without_a_session_says_so(script: StartScript, text: str, message: str) -> None:
    running = script(text.replace("KUBEXEC", "$PRTE_MCA_plm_ssh_agent"))
    running.gates["1"].open()
    assert running.process.wait(DEADLINE_S) == 0
    assert running.running.job.stop_hub() == 0
    with open(running.running.job.hub_termination_log, encoding="utf-8") as file:
        assert file.read() == message


def test_a_daemon_that_was_killed_is_told(script: StartScript) -> None:
    running = script("MPIRUN_1 || true")
    running.until_runs(1)
    running.kill_daemons(1)
    one = running.lost()["lost"][0]
    assert (one["worker"], one["cause"]) == ("pi-worker-1", "its daemon was killed by signal 9")


@pytest.mark.parametrize("between", ["", "KUBEXEC pi-worker-0 true; "])
def test_a_script_that_tries_again_is_not_punished(script: StartScript, between: str) -> None:
    running = script("MPIRUN_1; MPIRUN_2".replace("; ", f"; {between.replace('KUBEXEC', '$PRTE_MCA_plm_ssh_agent')}"))
    running.until_runs(1)
    running.kill_daemons(0)
    running.until_runs(2)
    running.go(2)
    assert running.lost() == {}


@pytest.mark.parametrize("end", ["kill", "go"])
def test_a_run_that_was_ended_or_ended_well_lost_nothing(script: StartScript, end: str) -> None:
    """Its agents are told to end, or die, in both cases."""
    running = script("MPIRUN_1 & wait $!; true")
    running.until_runs(1)
    if end == "go":
        running.go(1)
    else:
        running.signal_mpirun(signal.SIGTERM)
    assert running.lost() == {}


@pytest.mark.parametrize("name", ["openmpi5", "mpich", "impi"])
def test_a_script_that_kills_its_launcher_and_its_agents_lost_nothing(script: StartScript, name: str) -> None:
    """MPICH's proxies then exit with 7. The setting is the operator's for who writes by the agents."""
    setting = "" if name == "openmpi5" else "export MPI_AGENT_LOST_OUTPUT=fail; "
    running = script(f"{setting}MPIRUN_1 & wait $!; true", name)
    running.until_runs(1)
    job = running.running.job
    programs = ("prterun", "mpirun", "mpiexec", "mpiexec.hydra", "rshagent")
    for one in job.cluster.leftovers(job.pod):
        if one.argv and one.argv[0].endswith(programs):
            with contextlib.suppress(ProcessLookupError):  # with its launcher
                os.kill(one.pid, signal.SIGKILL)
    assert running.lost() == {}


def test_the_next_hub_knows_whose_its_sessions_are(script: StartScript) -> None:
    running = script("MPIRUN_1 || true")
    running.until_runs(1)
    job = running.running.job
    until(lambda: len(running.running.agents()) == 2, "the agents run")
    assert job.hub is not None
    job.hub.kill()
    job.hub.wait(DEADLINE_S)
    os.unlink(os.path.join(job.cluster.folder, "volumes", "run", "hub.sock"))
    job.cluster.until(lambda stats: not stats["sessions"])
    job.start_hub()
    job.cluster.until(lambda stats: stats["sessions"] >= 2)  # it asks after both
    # Without a stream the hub learns of an end when it asks next. By then mpirun would have ended its agents, and the
    # hub asks once more, but not for long.
    running.signal_mpirun(signal.SIGSTOP)
    running.kill_daemons(1)
    left = [one for one in job.cluster.leftovers("pi-worker-1") if one.argv]
    # The rank may run on without its daemon, and its session with it.
    signal_all((one.pid for one in left if one.argv[0] == "sh"), signal.SIGKILL)
    until(running.running.sessions, "the hub has heard of the daemon's end")
    running.signal_mpirun(signal.SIGCONT)
    assert [one["worker"] for one in running.lost()["lost"]] == ["pi-worker-1"]
