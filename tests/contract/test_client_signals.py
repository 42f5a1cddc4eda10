"""The real client when it is signalled, when its hub goes and another comes, and when its launcher dies."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from scripted_hub import FIXTURES, ended, in_both_builds, launcher

from rshagent.native import protocol

if TYPE_CHECKING:
    from pathlib import Path

    from scripted_hub import Clients, ScriptedHub

build, program, hub, clients = FIXTURES
IGNORED = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
STOPPING = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
LIBC = {32, 33, 34}  # the C library's own (34: musl's), which it lets nobody block
FORWARDED = sorted(set(range(1, 65)) - IGNORED - STOPPING - LIBC - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE})


# ---- signals ----


@in_both_builds
def test_signals_are_forwarded_and_never_end_it(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    for number in FORWARDED:
        client.send_signal(number)
    assert sorted(connection.signal() for _ in FORWARDED) == FORWARDED
    connection.exit(9)
    assert ended(client) == (9, "")


def test_a_second_signal_is_forwarded_too(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    connection.ticket()
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        client.send_signal(number)
        assert connection.signal() == number
    connection.exit(9)
    assert ended(client) == (9, "")


def test_harmless_signals_are_not_forwarded(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    for number in (signal.SIGPIPE, *IGNORED):
        client.send_signal(number)
    client.send_signal(signal.SIGUSR1)
    assert connection.signal() == signal.SIGUSR1
    connection.exit(0)
    assert connection.read() is None
    assert ended(client) == (0, "")


def test_it_can_be_stopped_and_continued(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    client.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(client.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    connection.exit(6)
    client.send_signal(signal.SIGCONT)
    assert ended(client) == (6, "")


def test_signals_that_the_launcher_ignores_stay_ignored(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start(before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    connection = hub.accept()
    connection.start()
    client.send_signal(signal.SIGHUP)
    client.send_signal(signal.SIGUSR1)
    assert connection.signal() == signal.SIGUSR1
    connection.exit(0)
    assert ended(client) == (0, "")


def test_a_signal_without_any_hub_ends_it_at_once(clients: Clients, hub: ScriptedHub) -> None:
    first = clients.start()
    connection = hub.accept()
    connection.start()  # its signals are taken now
    hub.stop()
    first.send_signal(signal.SIGTERM)
    assert ended(first) == (143, "")


# ---- a hub that goes and comes ----


def test_without_a_ticket_a_new_hub_is_asked_again(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start("worker-0", "date")
    first = hub.accept().start()
    hub.stop()
    hub.listen()
    connection = hub.accept()
    message = connection.expect(protocol.START)
    again = protocol.Start.unpack(message.payload)
    assert (again.argv, again.instance, len(message.fds)) == (first.argv, first.instance, 3)
    connection.exit(0)
    assert ended(client) == (0, "")


def test_half_a_message_from_a_dying_hub_is_forgotten(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    connection.send(protocol.exit_message(1)[:14])
    hub.stop()
    hub.listen()
    connection = hub.accept()
    connection.start()
    connection.exit(2)
    assert ended(client) == (2, "")


@pytest.mark.parametrize("ticket", [b"", b"session-7 \0\xff", b"x" * 4096])
def test_with_a_ticket_a_new_hub_is_given_it_and_the_files(clients: Clients, hub: ScriptedHub, ticket: bytes) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    connection.ticket(b"an earlier one")
    connection.ticket(ticket)
    for _ in range(2):
        hub.stop()
        hub.listen()
        connection = hub.accept()
        message = connection.expect(protocol.RESUME)
        assert message.payload == ticket
        assert len(message.fds) == 3
    connection.exit(3)
    assert ended(client) == (3, "")


def test_signals_wait_for_the_new_hub(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    connection.ticket()
    hub.stop()
    for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGTERM):
        client.send_signal(number)
    hub.listen()
    connection = hub.accept()
    connection.expect(protocol.RESUME)
    assert {connection.signal() for _ in range(3)} == {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM}
    hub.stop()
    hub.listen()
    connection = hub.accept()
    connection.expect(protocol.RESUME)
    assert connection.signal() == signal.SIGTERM  # the one that ends it is told to each hub
    connection.exit(143)
    assert ended(client) == (143, "")


def test_a_signal_that_a_dead_hub_did_not_take_goes_to_the_next(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    client.send_signal(signal.SIGSTOP)
    os.waitpid(client.pid, os.WUNTRACED)
    connection.ticket()  # so that it reads this, sends the signal, and only then sees that the hub is gone
    hub.stop()
    client.send_signal(signal.SIGUSR1)
    client.send_signal(signal.SIGCONT)
    hub.listen()
    connection = hub.accept()
    connection.expect(protocol.RESUME)
    assert connection.signal() == signal.SIGUSR1
    connection.exit(0)
    assert ended(client) == (0, "")


def test_nothing_is_started_for_a_client_that_was_told_to_end(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    client.send_signal(signal.SIGINT)
    assert connection.signal() == signal.SIGINT
    connection.close()
    assert ended(client) == (130, "")


# ---- the launcher's death ----


@pytest.mark.parametrize(
    "name", ["mpirun", "prterun", "orted", "mpiexec.hydra", "mpirun.openmpi", "hydra_pmi_proxy", "hydra_bstrap_proxy"]
)
def test_a_launcher_that_was_killed_is_a_hangup(clients: Clients, hub: ScriptedHub, tmp_path: Path, name: str) -> None:
    parent = clients.start(command=[launcher(tmp_path, name), clients.program])
    connection = hub.accept()
    connection.start()
    connection.ticket()
    parent.kill()
    assert connection.signal() == signal.SIGHUP
    connection.exit(129)
    assert connection.read() is None  # it ended
    assert parent.communicate()[1] == b""


@pytest.mark.parametrize("name", ["run.sh", "mpirunner", "my-mpirun", "prt"])
def test_the_end_of_another_parent_means_nothing(clients: Clients, hub: ScriptedHub, tmp_path: Path, name: str) -> None:
    parent = clients.start(command=[launcher(tmp_path, name), clients.program])
    connection = hub.accept()
    connection.start()
    peer = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    parent.kill()
    parent.wait()
    os.kill(int.from_bytes(peer[:4], sys.byteorder), signal.SIGUSR1)
    assert connection.signal() == signal.SIGUSR1  # a hangup would have come first
    connection.exit(0)
    assert connection.read() is None
    assert parent.communicate()[1] == b""
