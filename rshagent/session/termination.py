"""How a session ends that nobody wants any more: after a grace in which it may end by itself, its processes are ended.

Where none is found, and the command was never acknowledged, its request may still be on its way through the API server
and the kubelet: a second look tells, when the stream that brought the request has been closed.
"""

from __future__ import annotations

from rshagent.session.control import Reaper
from rshagent.session.decisions import ENDING, KILL
from rshagent.stream.status import Exited

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from rshagent.call.bootstrap import Mark
    from rshagent.session.engine import Engine
    from rshagent.session.execution import Execution, Where
    from rshagent.stream.status import Failure

_SECOND_LOOK_S = 1.0


class Termination:
    """Ends one session; `on_done(reason)` then: reason "" where nothing is left, else what is known of what is.

    `stream` is the session's, if it still has one; it is told of by whoever listens to it.
    """

    __slots__ = (
        "_engine", "_is_acknowledged", "_mark", "_on_done", "_reaper", "_signal_name", "_stream", "_timer", "_where",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        where: Where,
        mark: Mark,
        signal_name: str,
        grace_s: float,
        stream: Execution | None,
        *,
        is_acknowledged: bool,
        on_done: Callable[[str], None],
    ) -> None:
        self._engine, self._where, self._mark = engine, where, mark
        self._signal_name, self._stream, self._is_acknowledged = signal_name, stream, is_acknowledged
        self._on_done = on_done
        self._reaper: Reaper | None = None
        self._timer = engine.loop.call_later(grace_s, self._reap)

    @property
    def sent(self) -> tuple[int, ...]:
        """Return the signals by which the command's processes may have ended that were sent by us."""
        if self._reaper is None:
            return ()
        return (*ENDING, KILL) if self._reaper.kills else (*ENDING,)

    def close(self) -> None:
        """Stop, whatever is left."""
        self._timer.cancel()
        if self._reaper is not None:
            self._reaper.close()
            self._reaper = None

    def abandon(self) -> None:
        """Give up after an error of our own."""
        self._done("its processes may be left: an internal error of the agent; the hub's log says where")

    def acknowledged(self) -> None:
        """Take it that the command was started."""
        self._is_acknowledged = True

    def stream_ended(self, outcome: Exited | Failure | None) -> None:
        """Take the end of the stream; a status is the session's end as well, if its processes are not being ended."""
        self._stream = None
        if self._reaper is None and isinstance(outcome, Exited):
            self._done("")

    def _reap(self) -> None:
        self._reaper = Reaper(self._engine, self._where, self._mark, self._signal_name, self._reaped)

    def _reaped(self, reason: str) -> None:
        self._reaper = None
        if not reason and not self._is_acknowledged and self._stream is not None:
            self._timer = self._engine.loop.call_later(_SECOND_LOOK_S, self._look_again)
        else:
            self._done(reason)

    def _look_again(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._reap()

    def _done(self, reason: str) -> None:
        self.close()
        self._on_done(reason)
