"""Daemons that were lost while their launcher ran: what the hub says of them at its end, where Kubernetes shows it.

Open MPI 5's mpirun ends with 0 at times when it has lost a daemon, so a launcher's exit code can't tell. A session is
cut if its worker, its container or its daemon ended by something else than us, or if how it ended can't be known. It
counts for the launcher that called its agent, and only for the last one: a script may have tried again. Launchers that
run at the same time all count.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from agents.common.termination import VERSION
from agents.common.text import one_line
from rshagent.session.events import State
from rshagent.session.machine import ENDING

if TYPE_CHECKING:
    from rshagent.session.session import Session

_CALLER_MAX = 40
_NAMED_MAX = 4  # with a name of 253 bytes and a cause of four bytes a character the kubelet still takes it all
_CAUSE_MAX = 150


class _Caller:
    """One launcher: its sessions that run, and those that were cut."""

    __slots__ = ("count", "cut", "sessions")

    def __init__(self) -> None:
        self.sessions: set[Session] = set()
        self.cut: list[tuple[float, str, str]] = []  # when (epoch seconds), its worker, and by what
        self.count = 0

    @property
    def runs(self) -> bool:
        """Say whether it waits for a session: one that ends its sessions, or has died, is over."""
        return any(session.facts.state not in (*ENDING, State.ENDED) for session in self.sessions)


class Cuts:
    """What is known of the launchers that ran last."""

    def __init__(self) -> None:
        self._callers: dict[tuple[str, str], _Caller] = {}

    def begin(self, session: Session) -> None:
        """Take a new session, or one of the hub before us."""
        if not session.options.caller:  # a script or a user, who sees the agent's own exit code
            return
        key = (session.mark.instance, session.options.caller)
        if key not in self._callers:
            # Of those that run none is dropped: there are no more of them than sessions, and each may lose a daemon.
            self._callers = {key: one for key, one in self._callers.items() if one.runs}
            self._callers[key] = _Caller()
        self._callers[key].sessions.add(session)

    def end(self, session: Session) -> bool:
        """Take a session's end; say whether it was cut, and that counts."""
        caller = self._callers.get((session.mark.instance, session.options.caller))
        if caller is None:
            return False
        caller.sessions.discard(session)
        if not session.facts.cut:
            return False
        caller.count += 1
        if len(caller.cut) < _NAMED_MAX:
            caller.cut.append((time.time(), session.target.pod, one_line(session.facts.cut)[:_CAUSE_MAX]))
        return True

    def message(self) -> str:
        """Return the termination message, one line of JSON; "" if no session was cut."""
        count = sum(one.count for one in self._callers.values())
        if not count:
            return ""
        cut = sorted(one for caller in self._callers.values() for one in caller.cut)
        lost = [{"worker": worker, "cause": cause, "at": int(at)} for at, worker, cause in cut[:_NAMED_MAX]]
        return json.dumps({"version": VERSION, "ranksLost": {"count": count, "lost": lost}}, ensure_ascii=False)


def valid_caller(text: str) -> str:
    """Return what a client says of its launcher, "" for what is no process id and start time."""
    pid, _, started = text.partition("-")
    is_valid = len(text) <= _CALLER_MAX and text.isascii() and pid.isdigit() and started.isdigit()
    return text if is_valid else ""
