"""Keeps an eye on sshd: looks who listens, asks for banners, and says what it has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.worker import listening
from agents.worker.banner import Question, pid_file
from agents.worker.keeper import Keeper, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.worker.keeper import Answer
    from agents.worker.listening import Listener
    from rshagent.loop import Loop, Timer

SOON_S = 0.1
"""Between two looks in the first half minute: how soon a pod is Ready depends on it."""
WAITING_S = 0.5
READY_S = 2.0
_SOON_FOR_S = 30.0


class Sshd:
    """The keeper's eyes."""

    def __init__(self, loop: Loop, ports: tuple[int, ...], volume: str, log: Callable[[str], None]) -> None:
        self._loop, self._log = loop, log
        self._pid_file = f"{volume}/run/sshd.pid" if volume else ""
        self._had_pid_file = False
        self._started = loop.now()
        self._question: Question | None = None
        self._timer: Timer | None = None
        self.keeper = Keeper(ports)
        self._ports = ports

    def start(self) -> None:
        """Look now, and from now on."""
        self.look()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._question is not None:
            self._question.close()

    def look(self) -> None:
        """See who listens."""
        now = self._loop.now()
        listeners = listening.read(self._ports)
        if self.keeper.is_gone(listeners):
            self._say(self.keeper.gone(self._clue()))
        if self._question is None:
            asked = self.keeper.look(listeners, now)
            if asked is not None:
                self._question = Question(self._loop, asked, lambda answer: self._heard(asked, answer))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._pause(now), self.look)

    def _heard(self, listener: Listener, answer: Answer) -> None:
        self._question = None
        self._say(self.keeper.heard(listener, answer))
        if self.keeper.is_ready and self._pid_file:
            self._had_pid_file = bool(pid_file(self._pid_file))  # it is written before the first banner is sent

    def _pause(self, now: float) -> float:
        if self.keeper.state is State.READY:
            return READY_S
        return SOON_S if now - self._started < _SOON_FOR_S else WAITING_S

    def _clue(self) -> str:
        """What can be known from outside its container: sshd removes its pid file when it is told to end (sshd.c)."""
        if not self._had_pid_file:
            return ""
        if pid_file(self._pid_file):
            return (
                "it was killed or has crashed, as its pid file is still there; `kubectl describe pod` tells whether"
                " its container ran out of memory (OOMKilled) or was killed (exit code 137)"
            )
        return "it was told to end (SIGTERM), as it has removed its pid file"

    def _say(self, line: str) -> None:
        if line:
            self._log(line)
