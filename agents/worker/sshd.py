"""Keeps an eye on sshd: looks who listens, asks for banners, and says what it has seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agents.worker.banner import Question
from agents.worker.keeper import Heard, Keeper, State
from sshd_bootstrap import paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.worker.keeper import Answer
    from agents.worker.listening import Listener, Listening
    from agents.worker.settings import Settings
    from agents.worker.view import View
    from rshagent.loop import Loop, Timer

SOON_S = 0.05
"""Between two looks in the first half minute: how soon a pod is Ready depends on it."""
WAITING_S = 0.5
READY_S = 1.0
RESTART_S = 0.3
"""For so long nothing listens, at most, while sshd reads its configuration and keys again (SIGHUP)."""
TOLD_AFTER_S = 10.0
"""Where nothing has listened for so long, that is said once: why, is not to be seen from here."""
_SOON_FOR_S = 30.0


class Sshd:
    """The keeper's eyes."""

    def __init__(
        self, loop: Loop, settings: Settings, listening: Listening, view: View | None, log: Callable[[str], None]
    ) -> None:
        self._loop, self._listening, self._view, self._log = loop, listening, view, log
        self._ports = settings.ports
        self._pid_file = os.path.join(settings.volume, paths.RUN_FOLDER, paths.PID_FILE)
        self._had_pid_file = False
        self._started = loop.now()
        self._question: Question | None = None
        self._timer: Timer | None = None
        self._patience = loop.call_later(TOLD_AFTER_S, self._tell_of_none)
        self._is_followed = False
        self._is_missing = False
        self.keeper = Keeper(settings.ports)
        self.answered: Callable[[], None] = lambda: None
        """Called when sshd has become ready."""

    def close(self) -> None:
        """Look no more."""
        self._patience.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._question is not None:
            self._question.close()
        self._listening.close()

    def look(self) -> None:
        """See who listens, now and from now on."""
        listeners = self._listening.read(self._ports)
        is_gone = self.keeper.is_gone(listeners)
        if is_gone and self._is_missing:
            self._say(self.keeper.gone(self._clue()))
        self._is_missing = is_gone and not self._is_missing
        pause_s = RESTART_S if self._is_missing else self._pause_s()
        self._timer = self._loop.call_later(pause_s, self.look)
        if self._question is None:
            asked = self.keeper.look(listeners, self._loop.now())
            if asked is not None:
                self._question = Question(self._loop, asked, lambda answer: self._heard(asked, answer))

    def _tell_of_none(self) -> None:
        if self.keeper.state is State.STARTING:
            self._say(f"{self.keeper.words()}: see whether the container that starts it runs, and its log")

    def _heard(self, listener: Listener, answer: Answer) -> None:
        self._question = None
        if answer.heard is Heard.SILENT and self._view is not None:
            answer = answer._replace(text=self._view.state_of_sshd())
        was_ready = self.keeper.is_ready
        self._say(self.keeper.heard(listener, answer))
        if not self.keeper.is_ready:
            return
        self._had_pid_file = os.path.exists(self._pid_file)  # it is written before the first banner is sent
        if self._view is not None and not self._is_followed:
            self._is_followed = self._view.follow_sshd(self._ended)
        if not was_ready:
            self.answered()

    def _ended(self, pid: int) -> None:
        """Take it that sshd's process has ended: sooner than its socket's end would be seen."""
        self._is_followed = False
        self._say(self.keeper.gone(f"process {pid} has ended: {self._clue()}"))

    def _pause_s(self) -> float:
        if self.keeper.is_ready:
            return READY_S
        return SOON_S if self._loop.now() - self._started < _SOON_FOR_S else WAITING_S

    def _clue(self) -> str:
        """What can be known from outside its container: sshd removes its pid file when it is told to end (sshd.c)."""
        if not self._had_pid_file:
            return "why is not to be seen from here"
        if os.path.exists(self._pid_file):
            return (
                "it was killed or has crashed, as its pid file is still there; `kubectl describe pod` tells whether"
                " its container ran out of memory (OOMKilled) or was killed (exit code 137)"
            )
        return "it was told to end (SIGTERM), as it has removed its pid file"

    def _say(self, line: str) -> None:
        if line:
            self._log(line)
