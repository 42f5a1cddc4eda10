"""The messages between the client and its hub (docs/protocol.md), without any I/O.

Files travel beside the bytes: the kernel hands over those that came with the first byte of a START or RESUME, which
is the first message of a connection.
"""

from __future__ import annotations

from typing import NamedTuple

START, RESUME, SIGNAL, CHECK, ENDING = 1, 2, 3, 4, 5  # client → hub
TICKET, EXIT, LOCAL, FAIL, OK = 16, 17, 18, 19, 20  # hub → client

VERSION = 1
PAYLOAD_MAX = 4 << 20
TICKET_MAX = 4096
STRINGS_MAX = 65536  # of START: each becomes an object
GRACE_MAX_S = 7 * 86400
FDS = 3  # stdin, stdout and stderr
LOCAL_NULL_STDIN = 1  # flag of LOCAL
SIGNAL_MAX = 64
_LINE_MAX = 4096  # what a client prints of it

_MAGIC_AND_VERSION = b"MPIA" + bytes([VERSION])
_HEADER_LENGTH = 12
_KINDS = frozenset((START, RESUME, SIGNAL, CHECK, ENDING, TICKET, EXIT, LOCAL, FAIL, OK))
_SHORT = frozenset((RESUME, SIGNAL, CHECK, ENDING, TICKET, EXIT, OK))  # at most a resume token


class ProtocolError(Exception):
    """The peer sent what version 1 of the protocol forbids; the connection can't be read any further."""


class Message:
    """One message. `fds` are those that came with it: the code that takes the message closes them."""

    __slots__ = ("fds", "kind", "payload")

    def __init__(self, kind: int, payload: bytes = b"", fds: list[int] | None = None) -> None:
        self.kind = kind
        self.payload = payload
        self.fds = [] if fds is None else fds

    def number(self) -> int:
        """Return the u32 that the payload begins with: a signal, a code, flags, seconds. Raises ProtocolError."""
        if len(self.payload) < 4:
            raise ProtocolError(f"message {self.kind} has no number")
        return int.from_bytes(self.payload[:4], "big")

    def number_to(self, most: int) -> int:
        """Return that number. Raises ProtocolError unless it is one of 1 to `most`."""
        number = self.number()
        if not 1 <= number <= most:
            raise ProtocolError(f"message {self.kind} can't have the number {number}")
        return number


class Inbox:
    """Turns a peer's bytes into messages, however they were split on the way."""

    __slots__ = ("_data", "fds", "most")

    def __init__(self) -> None:
        self._data = bytearray()
        self.fds: list[int] = []  # that no message has taken
        self.most = PAYLOAD_MAX  # bytes of a payload

    @property
    def size(self) -> int:
        """Return how many bytes wait for the rest of their message."""
        return len(self._data)

    def feed(self, data: bytes, fds: list[int]) -> None:
        """Take what one recvmsg gave: bytes, and files that came with them."""
        self._data += data
        self.fds += fds

    def next(self) -> Message | None:
        """Return the next whole message, or None as long as it has not all come. Raises ProtocolError."""
        data = self._data
        known = min(len(data), len(_MAGIC_AND_VERSION))
        if data[:known] != _MAGIC_AND_VERSION[:known]:
            raise ProtocolError(f"not version {VERSION} of the protocol")
        if len(data) < _HEADER_LENGTH:
            return None
        kind, length = data[5], int.from_bytes(data[8:12], "big")
        if kind not in _KINDS or data[6:8] != b"\0\0" or length > (TICKET_MAX if kind in _SHORT else self.most):
            raise ProtocolError(f"a header of version {VERSION} can't have kind {kind} and length {length}")
        end = _HEADER_LENGTH + length
        if len(data) < end:
            return None
        with memoryview(data) as view:  # a slice of `data` would be one more copy
            payload = bytes(view[_HEADER_LENGTH:end])
        del data[:end]
        return Message(kind, payload, self.take_fds())

    def take_fds(self) -> list[int]:
        """Hand over the files that no message has taken: to be closed when the connection ends."""
        fds, self.fds = self.fds, []
        return fds


class Start(NamedTuple):
    """What START asks for. `env` holds the launcher's MPI_AGENT_* variables; `cwd` is empty where it is unknown."""

    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes
    instance: bytes

    def pack(self) -> bytes:
        """Return START's payload. Raises ValueError if a string holds a NUL."""
        variables = [name + b"=" + value for name, value in self.env.items()]
        strings = [*self.argv, *variables, self.cwd, self.instance]
        if any(b"\0" in string for string in strings):
            raise ValueError("a NUL can't be sent in START")
        counts = len(self.argv).to_bytes(4, "big") + len(variables).to_bytes(4, "big")
        return counts + b"".join(string + b"\0" for string in strings)

    @classmethod
    def unpack(cls, payload: bytes) -> Start:
        """Read START's payload; of two variables of one name the first counts, as for getenv. Raises ProtocolError."""
        argc, envc = int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big")
        if argc + envc > STRINGS_MAX:
            raise ProtocolError(f"START has more than {STRINGS_MAX} arguments and variables")
        # Counted before they are split: millions of empty strings would take ten times the memory of their bytes.
        if len(payload) < 9 or argc == 0 or payload.count(b"\0", 8) != argc + envc + 2 or payload[-1]:
            raise ProtocolError("START does not hold the strings that it counts")
        strings = payload[8:].split(b"\0")
        env: dict[bytes, bytes] = {}
        for variable in strings[argc : argc + envc]:
            name, equals, value = variable.partition(b"=")
            if not equals:
                raise ProtocolError("START holds a variable without a value")
            env.setdefault(name, value)
        return cls(strings[:argc], env, cwd=strings[-3], instance=strings[-2])


def encode(kind: int, payload: bytes = b"") -> bytes:
    """Return a whole message. Raises ValueError if the payload is longer than a message may be."""
    if len(payload) > PAYLOAD_MAX:
        raise ValueError(f"a payload has at most {PAYLOAD_MAX} bytes, not {len(payload)}")
    return _MAGIC_AND_VERSION + bytes([kind, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def exit_message(code: int) -> bytes:
    """Return EXIT: the client ends with `code`."""
    return encode(EXIT, code.to_bytes(4, "big"))


def fail_message(code: int, text: str) -> bytes:
    """Return FAIL: the client prints `rshagent: ` and `text` as one line, and ends with `code`."""
    line = " ".join(text[: 4 * _LINE_MAX].split())[:_LINE_MAX]
    return encode(FAIL, code.to_bytes(4, "big") + line.encode("utf-8", "surrogateescape").replace(b"\0", b""))


def local_message(text: bytes, null_stdin: bool) -> bytes:  # noqa: FBT001 (the wire's own flag)
    """Return LOCAL: the client becomes `/bin/sh -c text`. Raises ValueError if `text` holds a NUL."""
    if b"\0" in text:
        raise ValueError("a NUL can't be part of a command")
    return encode(LOCAL, (LOCAL_NULL_STDIN if null_stdin else 0).to_bytes(4, "big") + text)
