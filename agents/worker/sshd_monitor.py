"""Monitors sshd: checks which sockets listen at its ports, probes them, and logs what has changed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from agents.common.loop import Loop, Timer
from agents.common.ssh_probe import BANNER_S, Outcome, Probe, Result
from agents.worker.settings import Settings
from agents.worker.sock_diag import Listener, SockDiag
from agents.worker.sshd_state import Phase, SshdState
from sshd_bootstrap import paths

if TYPE_CHECKING:  # psutil takes 2 MiB, which only a shared process namespace needs
    from agents.worker.process_view import ProcessView

SOON_S = 0.05
"""Between two checks in the first half minute: how soon a pod is Ready depends on it."""
WAITING_S = 0.5
READY_S = 1.0
RESTART_S = 0.3
"""Longest time without a listener while sshd reads its configuration and keys again (SIGHUP)."""
LOGGED_AFTER_S = 10.0
"""If nothing listens for so long, that is logged once: the cause can't be seen from here."""
_SOON_FOR_S = 30.0
_IDENTIFICATION = b"SSH-2.0-mpi_worker\r\n"
_NO_BANNER = (Outcome.SILENT, Outcome.CLOSED, Outcome.TIMED_OUT)


class SshdMonitor:
    """Feeds an `SshdState` and logs what it returns."""

    def __init__(
        self, loop: Loop, settings: Settings, listening: SockDiag, view: ProcessView | None, log: Callable[[str], None]
    ) -> None:
        self._loop, self._listening, self._view, self._log = loop, listening, view, log
        self._ports = settings.ports
        self._pid_file = os.path.join(settings.volume, paths.RUN_FOLDER, paths.PID_FILE)
        self._had_pid_file = False
        self._started = loop.now()
        self._probe: Probe | None = None
        self._timer: Timer | None = None
        self._startup_timer = loop.call_later(LOGGED_AFTER_S, self._log_no_listener)
        self._is_followed = False
        self._is_missing = False
        self.state = SshdState(settings.ports)
        self.answered: Callable[[], None] = lambda: None
        """Called when sshd has become ready."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the state of sshd has changed."""

    def close(self) -> None:
        """Stop monitoring."""
        self._startup_timer.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._probe is not None:
            self._probe.close()
        self._listening.close()

    def look(self) -> None:
        """Check which sockets listen, now and periodically."""
        listeners = self._listening.read(self._ports)
        is_gone = self.state.is_gone(listeners)
        if is_gone and self._is_missing:
            self._say(self.state.gone(self._clue()))
        self._is_missing = is_gone and not self._is_missing
        pause_s = RESTART_S if self._is_missing else self._pause_s()
        self._timer = self._loop.call_later(pause_s, self.look)
        if self._probe is None:
            asked = self.state.look(listeners, self._loop.now())
            if asked is not None:
                self._start_probe(asked)

    def _start_probe(self, listener: Listener) -> None:
        family = socket.AF_INET6 if ":" in listener.address else socket.AF_INET
        address = (listener.address, listener.port)
        self._probe = Probe(
            self._loop, family, address, _IDENTIFICATION, BANNER_S, lambda _probe, result: self._heard(listener, result)
        )
        self._probe.start()

    def _log_no_listener(self) -> None:
        if self.state.state is Phase.STARTING:
            self._say(f"{self.state.message()}: see whether the container that starts it runs, and its log")

    def _heard(self, listener: Listener, result: Result) -> None:
        self._probe = None
        if result.outcome in _NO_BANNER and self._view is not None:
            result = result._replace(text=self._view.state_of_sshd())
        was_ready = self.state.is_ready
        self._say(self.state.heard(listener, result))
        if not self.state.is_ready:
            return
        self._had_pid_file = os.path.exists(self._pid_file)  # it is written before the first banner is sent
        if self._view is not None and not self._is_followed:
            self._is_followed = self._view.follow_sshd(self._ended)
        if not was_ready:
            self.answered()

    def _ended(self, pid: int) -> None:
        """Note that sshd's process has ended: sooner than its socket would show it."""
        self._is_followed = False
        self._say(self.state.gone(f"process {pid} has ended: {self._clue()}"))

    def _pause_s(self) -> float:
        if self.state.is_ready:
            return READY_S
        return SOON_S if self._loop.now() - self._started < _SOON_FOR_S else WAITING_S

    def _clue(self) -> str:
        """Return what is known from outside its container: sshd removes its pid file on SIGTERM (sshd.c)."""
        if not self._had_pid_file:
            return "the cause can't be seen from here"
        if os.path.exists(self._pid_file):
            return (
                "it was killed or crashed (its pid file is still there); `kubectl describe pod` tells whether"
                " its container ran out of memory (OOMKilled) or was killed (exit code 137)"
            )
        return "it was terminated by SIGTERM (it removed its pid file)"

    def _say(self, line: str) -> None:
        if line:
            self._log(line)
            self.changed()
