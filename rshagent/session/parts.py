"""What a session holds besides its stream: its timer, exit recovery, the reaper, the signals on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.common.loop import NO_TIMER
from rshagent.session.events import Reaped
from rshagent.session.exit_recovery import ExitRecovery
from rshagent.session.reaper import Reaper, SignalSender

if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.events import Event
    from rshagent.session.target import ExecTarget


class Parts:
    """One session's parts; `feed` gets the events that they report."""

    __slots__ = ("_engine", "_feed", "_mark", "_reaper", "_recovery", "_senders", "_target", "_timer")

    def __init__(self, engine: Engine, target: ExecTarget, mark: Mark, feed: Callable[[Event], None]) -> None:
        self._engine, self._target, self._mark, self._feed = engine, target, mark, feed
        self._timer = NO_TIMER
        self._recovery: ExitRecovery | None = None
        self._reaper: Reaper | None = None
        self._senders: tuple[SignalSender, ...] = ()

    @property
    def sent(self) -> tuple[int, ...]:
        """The signals that are being sent to end the command's processes."""
        return self._reaper.sent if self._reaper is not None else ()

    def set_timer(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call()` then, and nothing that was to be called before."""
        self._timer.cancel()
        self._timer = self._engine.loop.call_later(seconds, call)

    def ask_worker(self, pid: int | None) -> None:
        """Ask how the command ends, from the beginning."""
        self._end_recovery()
        self._recovery = ExitRecovery(self._engine, self._target, self._mark, pid, self._feed)

    def reap(self, signal_name: str) -> None:
        """End the command's processes."""
        self._reaper = Reaper(self._engine, self._target, self._mark, signal_name, self._reaped)

    def send_signal(self, name: str) -> None:
        """Send the command's processes one signal."""
        self._senders = tuple(sender for sender in self._senders if not sender.is_closed)
        for sender in self._senders:
            if sender.name == name:  # signals are a set, as in the kernel, and each sender is a request
                sender.repeat()
                return
        self._senders += (SignalSender(self._engine, self._target, self._mark, name),)

    def release(self, *, keeps_recovery: bool) -> None:
        """Cancel the timer, close the reaper, and exit recovery unless that is kept."""
        self._timer.cancel()
        if not keeps_recovery:
            self._end_recovery()
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None

    def close(self) -> None:
        """Close what `release` leaves: the signals on their way."""
        for sender in self._senders:
            sender.close()

    def _reaped(self, reason: str) -> None:
        self._feed(Reaped(reason))

    def _end_recovery(self) -> None:
        if self._recovery is not None:
            self._recovery.close()
            self._recovery = None
