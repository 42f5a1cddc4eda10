"""What is known of sshd, and what is said when that changes. Pure: `look` and `heard` are told, and decide.

    state      nothing listens   banner   busy       silent   foreign
    starting   starting          ready    ready      silent   foreign
    ready      dead              ready    ready      silent   foreign
    silent     dead or starting  ready    ready      silent   foreign
    foreign    dead or starting  ready    ready      silent   foreign
    dead       dead              ready    ready      silent   foreign

It is dead only if it was ready before. `busy` is an sshd that sends a client away before its banner (MaxStartups,
PerSourcePenalties): it lives, and does what it was told to.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from agents.worker.listening import Listener
from sshd_bootstrap.banner import BUSY

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIRM_S = 300.0
"""How long a banner is believed while the same socket listens: a stopped sshd's still does."""
AGAIN_S = 5.0
"""How long to wait before a socket without a banner is asked again."""
UNSEEN_CONFIRM_S = 10.0
"""CONFIRM_S where the kernel doesn't tell who listens."""

_LINE_MAX = 255  # of a banner, RFC 4253 §4.2


class State(Enum):
    """What sshd is like."""

    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    FOREIGN = "foreign"
    DEAD = "dead"


class Heard(Enum):
    """What a connection brought."""

    BANNER = "banner"
    BUSY = "busy"
    SILENT = "silent"
    FOREIGN = "foreign"
    REFUSED = "refused"


class Answer(NamedTuple):
    """What a connection brought, and its words where it had any."""

    heard: Heard
    text: str = ""


def understood(data: bytes) -> Answer | None:
    """Read the first line that came from a port; None: more has to come.

    RFC 4253 §4.2 allows other lines before the banner; OpenSSH sends none but those of `BUSY`.
    """
    line, end, _ = data.partition(b"\n")
    if not end and len(line) < _LINE_MAX and all(byte >= 0x20 or byte in b"\r\t" for byte in line):
        return None
    if line.startswith(b"SSH-"):
        return Answer(Heard.BANNER, _shown(line))
    return Answer(Heard.BUSY if line.startswith(BUSY) else Heard.FOREIGN, _shown(line))


class Keeper:
    """Follows one sshd at the first of some ports that has one."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        self.state = State.STARTING
        self.losses = 0
        """How often it was ready and then was not."""
        self._listener: Listener | None = None
        self._asked: dict[int, tuple[int, float]] = {}
        self._was_ready = False

    @property
    def is_ready(self) -> bool:
        """Whether sshd takes connections."""
        return self.state is State.READY

    @property
    def port(self) -> int | None:
        """Where sshd is, as far as is known."""
        return self._listener.port if self._listener else None

    def look(self, listeners: Mapping[int, Listener] | None, now: float) -> Listener | None:
        """Return whom to ask for a banner now, by who listens; None listeners: not known."""
        for port in self._order():
            found = listeners.get(port) if listeners is not None else Listener(port)
            if found and self._is_due(found, now, believed_s=UNSEEN_CONFIRM_S if listeners is None else CONFIRM_S):
                self._asked[port] = (found.inode, now)
                return found
        return None

    def heard(self, listener: Listener, answer: Answer) -> str:
        """Take an answer; return the line to be said, empty if nothing has changed."""
        if answer.heard is Heard.REFUSED:
            self._asked.pop(listener.port, None)
            return self.gone() if listener == self._listener else ""
        is_sshd = answer.heard in (Heard.BANNER, Heard.BUSY)
        if not is_sshd and self.is_ready and listener.port != self.port:
            return ""  # another candidate's port: the sshd that is known answers
        before, self._listener = (self.state, self.port), listener
        silent = State.SILENT if answer.heard is Heard.SILENT else State.FOREIGN
        self._become(State.READY if is_sshd else silent)
        if before == (self.state, self.port):
            return ""
        again, self._was_ready = self._was_ready, self._was_ready or is_sshd
        return self._said(answer, again="again " if again else "")

    def is_gone(self, listeners: Mapping[int, Listener] | None) -> bool:
        """Whether the socket that was known listens no more."""
        return self._listener is not None and listeners is not None and self._listener.port not in listeners

    def gone(self, clue: str = "") -> str:
        """Take it that nothing listens at sshd's port any more; `clue` is what is known of why."""
        if self._listener is None:
            return ""
        port, before = self._listener.port, self.state
        self._listener = None
        self._asked.pop(port, None)
        self._become(State.DEAD if self._was_ready else State.STARTING)
        if before is State.FOREIGN or not self._was_ready:
            return f"nothing listens at port {port} any more"
        return f"sshd is gone from port {port}: {clue or 'why is not known'}"

    def words(self) -> str:
        """What /readyz says of sshd."""
        ports = " or ".join(map(str, self._ports))
        return {
            State.STARTING: f"no sshd at port {ports} yet: nothing listens there",
            State.READY: f"sshd answers at port {self.port}",
            State.SILENT: f"port {self.port} accepts connections and sends no banner",
            State.FOREIGN: f"what listens at port {self.port} is no sshd",
            State.DEAD: "sshd has ended",
        }[self.state]

    def _become(self, state: State) -> None:
        self.losses += self.is_ready and state is not State.READY
        self.state = state

    def _said(self, answer: Answer, again: str) -> str:
        if self.state is State.READY:
            return f"sshd answers {again}at port {self.port}: {answer.text}"
        if self.state is State.SILENT:
            return f"{self.words()}: {answer.text or 'is sshd stopped, or is this another program?'}"
        return f"{self.words()}: it says {answer.text!a}"

    def _order(self) -> tuple[int, ...]:
        """The port of the sshd that is known, alone while it answers; else all."""
        return (self._listener.port,) if self._listener and self.is_ready else self._ports

    def _is_due(self, found: Listener, now: float, believed_s: float) -> bool:
        asked = self._asked.get(found.port)
        if asked is None or asked[0] != found.inode:
            return True
        return now - asked[1] >= (believed_s if self.is_ready else AGAIN_S)


def _shown(line: bytes) -> str:
    return line[:100].rstrip(b"\r").decode("ascii", "backslashreplace")
