"""The real client's two deadlines: without a hub, and after a signal that the hub does not answer.

Both are 10 s, and 2 s in the build of this test. All stories run at the same time.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripted_hub import FIXTURES, Clients, Connection, ScriptedHub, ended

from rshagent.native import client_build, protocol

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

build, program, hub, clients = FIXTURES


class Stories:
    """Clients that wait for a deadline, each with its hub's path; how they ended, and after how long."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._clients: list[Clients] = []
        self.began: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self.results: dict[str, tuple[int, str]] = {}
        self.seconds: dict[str, float] = {}
        self._refuser: tuple[ScriptedHub, threading.Thread] | None = None
        self._refused_enough = False
        self.openings = 0

    def path(self, story: str) -> Path:
        return self._folder / story / "hub.sock"

    def begin(self, story: str) -> tuple[subprocess.Popen[bytes], ScriptedHub]:
        self.path(story).parent.mkdir()
        hub = ScriptedHub(self.path(story))
        clients = Clients(self._program, hub)
        self._clients.append(clients)
        began = time.monotonic()  # before: the client's time is never less by this clock
        client = clients.start()
        self.began[story] = client, began
        return client, hub

    def asked(self, story: str, *, ticket: bool) -> tuple[subprocess.Popen[bytes], ScriptedHub, Connection]:
        """Begin a story up to a client that is connected and has been given a ticket, or not."""
        client, hub = self.begin(story)
        connection = hub.accept()
        connection.start()
        if ticket:
            connection.ticket()
            client.send_signal(signal.SIGUSR1)  # comes back only when the ticket was read
            assert connection.signal() == signal.SIGUSR1
        connection.close_files()
        return client, hub, connection

    def refuse_at_once(self, hub: ScriptedHub) -> None:
        """Be a hub that takes connections and closes them, again and again."""
        while not self._refused_enough:
            hub.listener.accept()[0].close()
            self.openings += 1

    def tell(self) -> None:
        client, hub = self.begin("nothing there")
        hub.stop()
        hub.path.unlink()
        _, hub = self.begin("stale socket")
        hub.stop()
        _, hub, _ = self.asked("lost forever", ticket=True)
        hub.stop()
        client, _, connection = self.asked("mute", ticket=True)
        client.send_signal(signal.SIGTERM)
        assert connection.signal() == signal.SIGTERM
        client, _, connection = self.asked("mute before a ticket", ticket=False)
        client.send_signal(signal.SIGINT)
        assert connection.signal() == signal.SIGINT
        client, hub, connection = self.asked("told and lost", ticket=True)
        client.send_signal(signal.SIGTERM)
        assert connection.signal() == signal.SIGTERM
        hub.stop()
        _, hub = self.begin("refusing")
        self._refuser = hub, threading.Thread(target=self.refuse_at_once, args=(hub,))
        self._refuser[1].start()
        patient, _, self.patient = self.asked("patient", ticket=True)
        for story, (client, began) in self.began.items():
            if story != "patient":
                self.results[story] = ended(client)
                self.seconds[story] = time.monotonic() - began
        assert patient.poll() is None
        self.patient.exit(3)
        self.results["patient"] = ended(patient)

    def end(self) -> None:
        if self._refuser:
            self._refused_enough = True
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(os.fspath(self._refuser[0].path))
            self._refuser[1].join()
        for clients in self._clients:
            clients.end()


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    hasty = Path(client_build.kept("rshagent", sanitize=True, constants={"PATIENCE_S": 2}))
    stories = Stories(hasty, tmp_path_factory.mktemp("stories"))
    try:
        stories.tell()
        yield stories
    finally:
        stories.end()


GONE = "rshagent: no hub at {} for 2 s ({}): {}; see the log of the hub's container\n"
MUTE = "rshagent: ended by signal {}; the hub at {} did not answer for 2 s{}\n"
ORPHANED = ", so the command may still run in the worker"


@pytest.mark.parametrize(
    ("story", "reason", "outcome"),
    [
        ("nothing there", "No such file or directory", "nothing was started"),
        ("stale socket", "Connection refused", "nothing was started"),
        ("refusing", "Connection reset by peer", "nothing was started"),
        ("lost forever", "Connection refused", "how the command ended is not known"),
    ],
)
def test_deadline_without_a_hub(stories: Stories, story: str, reason: str, outcome: str) -> None:
    assert stories.results[story] == (255, GONE.format(stories.path(story), reason, outcome))
    assert stories.seconds[story] >= 2


def test_a_hub_that_refuses_is_not_asked_without_a_pause(stories: Stories) -> None:
    assert 1 < stories.openings <= 21


@pytest.mark.parametrize(
    ("story", "number", "outcome"),
    [("mute", 15, ORPHANED), ("mute before a ticket", 2, ""), ("told and lost", 15, ORPHANED)],
)
def test_deadline_after_a_signal(stories: Stories, story: str, number: int, outcome: str) -> None:
    assert stories.results[story] == (128 + number, MUTE.format(number, stories.path(story), outcome))
    assert stories.seconds[story] >= 2


def test_a_signal_that_is_the_applications_own_has_no_deadline(stories: Stories) -> None:
    assert stories.results["patient"] == (3, "")


def test_a_hub_that_stops_in_mid_message_is_lost(clients: Clients, hub: ScriptedHub) -> None:
    client = clients.start()
    connection = hub.accept()
    connection.start()
    os.write(connection.socket.fileno(), protocol.exit_message(1)[:14])
    again = hub.accept()
    again.start()
    connection.close()
    again.exit(2)
    assert ended(client) == (2, "")
