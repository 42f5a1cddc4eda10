"""The server's process as its handle sees it: started, asked, ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from .channel import Channel
from .launchers import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_END_S = 20.0
SILENT_S = 30.0  # after that it reports what the server is doing, and waits on


def own_environment() -> dict[str, str]:
    """The environment of a process that imports our packages, wherever they are."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


class ClusterError(Exception):
    """The stand-in refused a request, or is gone."""


class ServerProcess:
    """One server. It ends when `close` is called, and by itself when this process ends.

    It is loaded while its handle prepares the settings that it waits for.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agents.playground.server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=own_environment(),
            )
        self._channel = Channel(ours)
        self._lock = threading.Lock()
        self._number = 0  # of the last request: an answer to an earlier one, whose wait was interrupted, is dropped
        self.pid = self._process.pid

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> Any:
        """Send the settings, or what is to be done (see control.py), and return the answer. Raises ClusterError."""
        with self._lock:
            try:
                self._number += 1
                self._channel.send({**message, "number": self._number}, fds)
                self._report_silence(message)
                while (answer := self._channel.receive()) is not None and answer[0]["number"] != self._number:
                    pass
            except OSError:
                answer = None
        if answer is None:
            raise ClusterError("the stand-in's server is gone; its last words are on stderr")
        if "error" in answer[0]:
            raise ClusterError(answer[0]["error"])
        return answer[0]["ok"]

    def _report_silence(self, message: Mapping[str, Any]) -> None:
        """Say on stderr what the server does, if no answer comes."""
        if not select.select([self._channel.fd], [], [], SILENT_S)[0]:
            sys.stderr.write(f"the stand-in has not answered {message.get('do', 'its start')!r} for {SILENT_S:g} s\n")
            if "do" in message:  # it has started, and so dumps its stack
                self.signal(signal.SIGUSR1)

    def signal(self, number: int) -> None:
        """Signal the server, to stop it for a while or to kill it."""
        os.kill(self.pid, number)

    def close(self) -> None:
        """End it and all its pods."""
        self._channel.close()
        try:
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its shims then end their pods by themselves
            self._process.wait()
