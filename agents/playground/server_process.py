"""The server's process as its handle sees it: started, asked, ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from .channel import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_END_S = 20.0


class ClusterError(Exception):
    """The stand-in refused a request, or is gone."""


class ServerProcess:
    """One server. It ends when `close` is called, and by itself when this process ends."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH", "")]))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "agents.playground.server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._channel = Channel(ours)
        self._lock = threading.Lock()
        self.pid = self._process.pid
        self.started: dict[str, Any]
        """What it said when it was ready: port, level."""
        try:
            self.started = self.send(settings)
        except BaseException:
            self.close()
            raise

    def ask(self, what: str, fds: Sequence[int] = (), **fields: Any) -> Any:
        """Ask for something (see control.py) and return the answer. Raises ClusterError."""
        return self.send({"do": what, **fields}, fds)

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> Any:
        """Send a message and return the answer. Raises ClusterError."""
        with self._lock:
            try:
                self._channel.send(message, fds)
                answer = self._channel.wait()
            except OSError:
                answer = None
        if answer is None:
            raise ClusterError("the stand-in's server is gone; its last words are on stderr")
        if "error" in answer[0]:
            raise ClusterError(answer[0]["error"])
        return answer[0]["ok"]

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
