"""The clients that have to wait: for the list of workers, or until their command fits into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agents.common.loop import Loop
    from rshagent.session.session import Session

_TEXT_MAX = 16 << 20  # bytes of all commands that wait for their start
SHORT_TEXT = 4096  # commands up to this have always room: of as many as there can be sessions, that is 16 MiB, too
_LONG_TEXT, _COPIES = 64 << 10, 4  # while a long one is sent there are so many copies of it
_ROOM_AGAIN_S = 0.1


class Admission:
    """Calls the clients that wait, in the order in which they came, each from the loop."""

    def __init__(self, loop: Loop, sessions: Iterable[Session], *, finds_workers: bool) -> None:
        """`sessions` hold commands; `finds_workers`: an unknown host may be in the first list of workers."""
        self._loop, self._sessions = loop, sessions
        self.is_listed = not finds_workers  # a list of workers has come, or never will
        self.is_answered = False  # a list has come, or the reason why there is none
        self._for_list: dict[object, Callable[[], None]] = {}
        self._for_answer: dict[object, Callable[[], None]] = {}
        self._for_room: dict[object, tuple[int, Callable[[], None]]] = {}
        self._looks_for_room = False

    def once_listed(self, client: object, go: Callable[[], None]) -> bool:
        """Call `go()` once the first list of workers has come, or is forbidden; False if there is no such wait."""
        if not self.is_listed:
            self._for_list[client] = go
        return not self.is_listed

    def once_answered(self, client: object, go: Callable[[], None]) -> bool:
        """Call `go()` at the first list, or when it is known why there is none; False if there is no such wait."""
        if not self.is_answered:
            self._for_answer[client] = go
        return not self.is_answered

    def once_room(self, size: int, client: object, go: Callable[[], None]) -> bool:
        """Call `go()` when a command of so many bytes can be held until it has been started; False if it can now."""
        if _fits(size, self._held()):
            return False
        self._for_room[client] = size, go
        if not self._looks_for_room:
            self._looks_for_room = True
            self._loop.call_later(_ROOM_AGAIN_S, self._look_for_room)
        return True

    def forget(self, client: object) -> None:
        """Drop a client that has gone."""
        for waiting in (self._for_list, self._for_answer, self._for_room):
            waiting.pop(client, None)

    def listed(self) -> None:
        """Let in those that wait for the list of workers: it has come, or never will."""
        self.is_listed = True
        self._let_in(self._for_list)

    def answered(self) -> None:
        """Let in those that wait for an answer about the workers."""
        self.is_answered = True
        self._let_in(self._for_answer)

    def _let_in(self, waiting: dict[object, Callable[[], None]]) -> None:
        for go in waiting.values():
            self._loop.call_later(0, go)
        waiting.clear()

    def _look_for_room(self) -> None:
        """Let in the first for whom there is room, and look again when it is in: it has taken some."""
        held = self._held()
        first = next((client for client, (size, _) in self._for_room.items() if _fits(size, held)), None)
        if first is not None:
            self._loop.call_later(0, self._for_room.pop(first)[1])
        self._looks_for_room = bool(self._for_room)
        if self._looks_for_room:
            self._loop.call_later(_ROOM_AGAIN_S if first is None else 0, self._look_for_room)

    def _held(self) -> int:
        return sum(_cost(len(session.command)) for session in self._sessions)


def _cost(size: int) -> int:
    return size * _COPIES if size > _LONG_TEXT else size


def _fits(size: int, held: int) -> bool:
    return not held or held + _cost(size) <= _TEXT_MAX
