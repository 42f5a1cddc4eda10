"""What is known of sshd, and what is logged when that changes. Pure.

    state      nothing listens   banner   busy       silent   foreign
    starting   starting          ready    ready      silent   foreign
    ready      dead              ready    ready      silent   foreign
    silent     dead or starting  ready    ready      silent   foreign
    foreign    dead or starting  ready    ready      silent   foreign
    dead       dead              ready    ready      silent   foreign

It is dead only if it was ready before. `busy` is an sshd that sends a client away before its banner (MaxStartups,
PerSourcePenalties): it works as configured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum

from agents.common.ssh_probe import Outcome, Result
from agents.worker.sock_diag import Listener

CONFIRM_S = 300.0
"""How long a banner counts while the same socket listens: a stopped sshd's socket listens, too."""
AGAIN_S = 5.0
"""How long to wait before probing a socket without a banner again."""
UNSEEN_CONFIRM_S = 10.0
"""CONFIRM_S if the kernel does not say which socket listens."""

_GONE = (Outcome.REFUSED, Outcome.UNREACHABLE)
_SSHD = (Outcome.READY, Outcome.BUSY)


class Phase(Enum):
    """The state of sshd."""

    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    FOREIGN = "foreign"
    DEAD = "dead"


class SshdState:
    """Follows one sshd at the first of some ports that has one."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        self.state = Phase.STARTING
        self.losses = 0
        """How often it was ready and then was not."""
        self._listener: Listener | None = None
        self._asked: dict[int, tuple[int, float]] = {}
        self._was_ready = False

    @property
    def is_ready(self) -> bool:
        """Whether sshd takes connections."""
        return self.state is Phase.READY

    @property
    def is_starting(self) -> bool:
        """Whether it was never ready, but may soon be: on a busy node its banner is late."""
        return not self._was_ready and self.state in (Phase.STARTING, Phase.SILENT)

    @property
    def port(self) -> int | None:
        """The port where sshd is, if it is known."""
        return self._listener.port if self._listener else None

    def look(self, listeners: Mapping[int, Listener] | None, now: float) -> Listener | None:
        """Return the socket to read a banner from now, None: none is due. `listeners` None: not known."""
        valid_s = UNSEEN_CONFIRM_S if listeners is None else CONFIRM_S
        found = [listeners.get(port) if listeners is not None else Listener(port) for port in self._order()]
        due = [one for one in found if one and self._is_due(one, now, valid_s)]
        if not due:
            return None
        # The one asked longest ago: a silent program at one port must not keep sshd at another from its turn.
        chosen = min(due, key=lambda one: self._asked.get(one.port, (0, -math.inf))[1])
        self._asked[chosen.port] = (chosen.inode, now)
        return chosen

    def heard(self, listener: Listener, result: Result) -> str:
        """Take a probe's result; return the line to log, empty if nothing has changed."""
        if result.outcome in _GONE:
            self._asked.pop(listener.port, None)
            return self.gone() if listener == self._listener else ""
        is_sshd = result.outcome in _SSHD
        if not is_sshd and self.is_ready and listener.port != self.port:
            return ""  # another candidate's port: the sshd that is known answers
        before, self._listener = (self.state, self.port), listener
        other = Phase.FOREIGN if result.outcome is Outcome.NOT_SSH else Phase.SILENT
        self._become(Phase.READY if is_sshd else other)
        if before == (self.state, self.port):
            return ""
        again, self._was_ready = self._was_ready, self._was_ready or is_sshd
        return self._line(result, again="again " if again else "")

    def is_gone(self, listeners: Mapping[int, Listener] | None) -> bool:
        """Whether the known socket no longer listens."""
        return self._listener is not None and listeners is not None and self._listener.port not in listeners

    def gone(self, clue: str = "") -> str:
        """Note that nothing listens at sshd's port any more; `clue` is what is known about the cause."""
        if self._listener is None:
            return ""
        port, before = self._listener.port, self.state
        self._listener = None
        self._asked.pop(port, None)
        self._become(Phase.DEAD if self._was_ready else Phase.STARTING)
        if before is Phase.FOREIGN or not self._was_ready:
            return f"nothing listens at port {port} any more"
        return f"sshd is gone from port {port}: {clue or 'cause unknown'}"

    def message(self) -> str:
        """What /readyz says about sshd."""
        ports = " or ".join(map(str, self._ports))
        return {
            Phase.STARTING: f"no sshd at port {ports} yet: nothing listens there",
            Phase.READY: f"sshd answers at port {self.port}",
            Phase.SILENT: f"port {self.port} accepts connections and sends no banner",
            Phase.FOREIGN: f"what listens at port {self.port} is no sshd",
            Phase.DEAD: "sshd has ended",
        }[self.state]

    def _become(self, state: Phase) -> None:
        self.losses += self.is_ready and state is not Phase.READY
        self.state = state

    def _line(self, result: Result, again: str) -> str:
        if self.state is Phase.READY:
            return f"sshd answers {again}at port {self.port}: {result.text}"
        if self.state is Phase.SILENT:
            return f"{self.message()}: {result.text or 'is sshd stopped, or is this another program?'}"
        return f"{self.message()}: it says {result.text!a}"

    def _order(self) -> tuple[int, ...]:
        """The port of the sshd that is known, alone while it answers; else all."""
        return (self._listener.port,) if self._listener and self.is_ready else self._ports

    def _is_due(self, found: Listener, now: float, valid_s: float) -> bool:
        asked = self._asked.get(found.port)
        if asked is None or asked[0] != found.inode:
            return True
        return now - asked[1] >= (valid_s if self.is_ready else AGAIN_S)
