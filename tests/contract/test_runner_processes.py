"""Signals, dead clients and dead runners: what runs on in an application container, and what does not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from app_container import FIXTURES, NULL, Container, Peer, Programs, in_both_builds, in_static_build

from rshagent.native import protocol
from tests.processes import is_alive
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from app_container import Popen

programs, sockets, app = FIXTURES

# No program has a handler in Python: the interpreter would run it when its next system call returns, and one that comes
# just before signal.pause() or time.sleep() would wait for ever.
# Prints each signal that comes, and ends with 7 by QUIT. SIGTSTP as well, so that no test depends on being stopped.
CATCH = """
import os, signal
numbers = set(range(1, 65)) - {9, 17, 19, 32, 33}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
os.write(1, b"up\\n")
while (number := signal.sigwait(numbers)) != signal.SIGQUIT: os.write(1, b"%d\\n" % number)
os.write(1, b"3\\n")
os._exit(7)
"""
# A child in a session of its own, that ignores TERM, as a daemon's child.
DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0: os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(1000)
os.wait()
time.sleep(1000)
"""
PASSED_ON = [number for number in range(1, 65) if number not in (9, 13, 17, 19, 20, 21, 22, 23, 32, 33, 34, 3)]


def line_of(process: Popen) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def started(app: Container, code: str, *words: str) -> Popen:
    return app.spawn(sys.executable, "-S", "-c", code, *words)


@in_both_builds
def test_every_signal_reaches_the_program(app: Container) -> None:
    process = started(app, CATCH)
    assert line_of(process) == b"up\n"
    for number in PASSED_ON:
        process.send_signal(number)
        assert line_of(process) == b"%d\n" % number
    process.send_signal(signal.SIGQUIT)
    assert (line_of(process), process.wait(60)) == (b"3\n", 7)


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_tstp_stops_both_and_cont_lets_them_go_on(app: Container) -> None:
    process = app.spawn("sh", "-c", "echo $$; read line; exit 5", stdin=subprocess.PIPE, process_group=0)
    inside = int(line_of(process))
    process.send_signal(signal.SIGTSTP)
    until(lambda: state(inside) == "T" and state(process.pid) == "T", "both are stopped")
    process.send_signal(signal.SIGCONT)
    until(lambda: state(inside) == "S", "it runs again")
    process.communicate(b"\n", 60)
    assert process.returncode == 5


def test_a_signal_is_for_the_whole_process_group(app: Container) -> None:
    process = app.spawn("sh", "-c", "sleep 1000 & echo $!; wait; exit 5")
    child = int(line_of(process))
    process.terminate()
    assert process.wait(60) == 143
    until(lambda: not is_alive(child), "its child was ended too")


def test_a_client_that_ignores_a_signal_does_not_pass_it_on(app: Container) -> None:
    process = app.spawn(
        *(sys.executable, "-S", "-c", CATCH), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    assert line_of(process) == b"up\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)
    assert line_of(process) == b"10\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_a_program_leaves_after_such_a_signal_is_ended(app: Container, number: int) -> None:
    process = started(app, DAEMON)
    assert is_alive(int(line_of(process)))
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    app.until_idle()


def test_what_a_program_leaves_when_it_exits_goes_on(app: Container) -> None:
    code, out, _ = app.run("sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
    assert code == 0
    until(lambda: app.below() == [int(out)], "only it is left")
    os.kill(int(out), signal.SIGTERM)
    app.until_idle()  # and its zombie is reaped


def test_a_killed_client_ends_its_program_and_all_below_it(app: Container) -> None:
    process = started(app, DAEMON)
    inside = int(line_of(process))
    process.kill()
    process.wait()
    app.until_idle()
    assert not is_alive(inside)


@in_static_build  # others wait a second
def test_a_killed_client_gives_its_program_time_to_save(app: Container, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    process = app.spawn(
        "sh", "-c", f"trap 'sleep 0.3; echo saved > {saved}; exit' TERM; echo up; while :; do sleep 0.1; done"
    )
    assert line_of(process) == b"up\n"
    process.kill()
    app.until_idle()
    assert saved.read_text() == "saved\n"


def test_a_stopped_program_of_a_dead_client_is_ended(app: Container) -> None:
    process = app.spawn("sh", "-c", "echo $$; read line", stdin=subprocess.PIPE)
    inside = int(line_of(process))
    os.kill(inside, signal.SIGSTOP)
    process.kill()
    app.until_idle()


def test_other_programs_go_on(app: Container) -> None:
    other = app.spawn("sh", "-c", "read line; exit 4", stdin=subprocess.PIPE)
    process = started(app, DAEMON)
    line_of(process)
    process.kill()
    until(lambda: len(app.below()) == 2, "session and program of the other are left")
    other.communicate(b"\n", 60)
    assert other.returncode == 4


def test_zombies_are_reaped_while_a_program_runs(app: Container) -> None:
    process = app.spawn(
        "sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.01 & sleep 0); done; echo up; read line", stdin=subprocess.PIPE
    )
    assert line_of(process) == b"up\n"
    until(lambda: len(app.below()) == 2, "only session and program are left")
    assert all(state(pid) != "Z" for pid in app.below())
    process.communicate(b"\n", 60)
    app.until_idle()


def test_a_killed_runner_is_one_line_and_255_and_nothing_runs_on(app: Container) -> None:
    process = started(app, DAEMON)
    inside = int(line_of(process))
    below = app.below()
    app.process.kill()
    app.process.wait()
    _, err = process.communicate(timeout=60)
    assert process.returncode in (255, 128 + signal.SIGTERM)  # the session ends the program, which it may still report
    assert err.count(b"\n") == (process.returncode == 255)
    until(lambda: not any(map(is_alive, [*below, inside])), "all has ended")


def test_a_killed_session_is_one_line_and_255(app: Container) -> None:
    process = app.spawn("sh", "-c", "echo $$; exec sleep 1000")
    inside = int(line_of(process))
    session = next(pid for pid in app.below() if pid != inside)
    os.kill(session, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 255
    assert err.decode() == (
        "mpi-wrap: container app: mpi-runner is gone (Connection reset by peer), so how the program ended is not "
        "known; was the container restarted, or out of memory?\n"
    )
    app.until_idle()


def test_term_ends_all_programs_and_the_runner(app: Container) -> None:
    clients = [app.spawn("sh", "-c", "echo up; exec sleep 1000") for _ in range(3)]
    clients.append(app.spawn("sh", "-c", "trap 'exit 6' TERM; echo up; while :; do sleep 0.1; done"))
    assert [line_of(client) for client in clients] == [b"up\n"] * 4
    app.process.terminate()
    assert app.process.wait(60) == 0
    assert [client.wait(60) for client in clients] == [143, 143, 143, 6]
    assert not app.socket.exists()
    assert app.log.read_text() == ""


def test_term_waits_for_a_program_that_saves(app: Container) -> None:
    """Without a deadline of its own: the kubelet's grace period is the user's choice."""
    client = app.spawn("sh", "-c", "trap '' TERM; echo up; read line; exit 3", stdin=subprocess.PIPE)
    assert line_of(client) == b"up\n"
    app.process.terminate()
    until(lambda: not app.socket.exists(), "it takes no more")
    client.communicate(b"\n", 60)
    assert client.returncode == 3
    assert app.process.wait(60) == 0


def test_term_ends_programs_that_start_at_that_moment(app: Container) -> None:
    peers = [Peer(app.socket) for _ in range(100)]
    until(lambda: len(app.below()) == len(peers), "each has its session")
    app.process.terminate()
    for peer in peers:
        peer.start(b"sleep", b"1000")
    assert {peer.answer()[0] for peer in peers} <= {143, 255}
    assert app.process.wait(60) == 0
    for peer in peers:
        peer.close()


def test_term_ends_a_session_that_waits_for_its_start(app: Container) -> None:
    with Peer(app.socket) as peer:
        peer.push(b"MPIA")
        until(app.below, "its session is there")
        app.process.terminate()
        assert peer.answer() == (255, "mpi-runner has ended")
    assert app.process.wait(60) == 0


@pytest.mark.parametrize("left", ["sleep 1000", '(trap "" TERM; while :; do sleep 0.1; done)'])
def test_term_ends_what_a_program_starts_as_it_ends(app: Container, left: str) -> None:
    client = app.spawn("sh", "-c", f"trap '{left} & exit 6' TERM; echo up; while :; do sleep 0.1; done")
    assert line_of(client) == b"up\n"
    app.process.terminate()
    assert app.process.wait(60) == 0
    assert client.wait(60) == 6


PID_NAMESPACE = ["unshare", "--user", "--map-current-user", "--pid", "--mount-proc", "--fork", "--kill-child"]
HAS_NAMESPACES = subprocess.run([*PID_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not HAS_NAMESPACES, reason="no user namespaces here")
def test_as_pid_1_it_obeys_term_and_reaps(programs: Programs, sockets: Path) -> None:
    container = Container(programs, sockets, prefix=PID_NAMESPACE)
    try:
        code, out, _ = container.run("sh", "-c", "(sleep 0.01 &) ; cat /proc/1/comm; readlink /proc/self")
        assert (code, out.split()[0]) == (0, b"mpi-runner")
        runner = container.below()[0]  # the child of unshare
        until(lambda: container.below() == [runner], "the orphan was reaped")
        client = container.spawn("sh", "-c", "echo up; exec sleep 1000")
        assert line_of(client) == b"up\n"
        os.kill(runner, signal.SIGTERM)
        assert client.wait(60) == 143
        assert container.process.wait(60) == 0
    finally:
        container.end()


def test_a_program_that_daemonizes_at_once_many_times_is_ended(app: Container) -> None:
    """New processes appear while the tree is signalled; with none of them left the session ends."""
    child = "if os.fork() == 0: os.setsid(); os.write(1, b'u'); time.sleep(1000)"
    process = started(app, f"import os, time\nfor _ in range(40):\n    {child}\ntime.sleep(1000)")
    assert process.stdout is not None
    assert process.stdout.read(40) == b"u" * 40
    process.kill()
    app.until_idle()


def test_a_connection_that_ends_in_one_direction_is_a_dead_client(app: Container) -> None:
    with Peer(app.socket) as peer:
        peer.start(b"sleep", b"1000")
        assert peer.kind() == protocol.TICKET
        peer.socket.shutdown(1)
        peer.until_closed()
    app.until_idle()


def test_signals_that_come_with_start(app: Container) -> None:
    with Peer(app.socket) as peer:
        payload = protocol.Start([b"sleep", b"1000"], {}, b"/", b"").pack()
        signal_ = protocol.encode(protocol.SIGNAL, (15).to_bytes(4, "big"))
        peer.push(protocol.encode(protocol.START, payload) + signal_, (NULL,) * 3)
        assert peer.answer() == (143, "")
    app.until_idle()


def test_a_dead_launcher_ends_what_it_started(app: Container, tmp_path: Path) -> None:
    shutil.copy("/bin/sh", tmp_path / "prted")
    launcher = subprocess.Popen(
        [tmp_path / "prted", "-c", f"{app.wrap} sh -c 'echo $$; exec sleep 1000' & wait"],
        env={"MPI_WRAP_FOLDER": os.fspath(app.folder)},
        stdout=subprocess.PIPE,
    )
    inside = int(line_of(launcher))
    launcher.kill()
    launcher.communicate()
    app.until_idle()
    assert not is_alive(inside)
