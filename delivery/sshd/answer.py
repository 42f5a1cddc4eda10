"""What came of one try to reach an sshd: bytes and errors in, an `Answer` out. Pure.

An sshd says its version first (`sshd_bootstrap.banner`). One that is overloaded or penalises the address says so in
words instead, or closes the connection without any.
"""

from __future__ import annotations

import errno
import os
from enum import IntEnum
from typing import NamedTuple

from sshd_bootstrap.banner import BUSY, is_banner

LONGEST = 4096  # bytes of words before the version that are read
_SHOWN = 60


class Kind(IntEnum):
    """What a try met; of several addresses and ports, the highest tells most."""

    UNREACHABLE = 1
    TIMED_OUT = 2
    REFUSED = 3
    SILENT = 4
    CLOSED = 5
    STRANGE = 6
    TURNED_AWAY = 7
    READY = 8


class Answer(NamedTuple):
    """One try's end; `said`: the peer's words, or the system's."""

    kind: Kind
    port: int
    said: str = ""


def of_bytes(data: bytes, port: int, *, is_over: bool) -> Answer | None:
    """Return what the peer's first bytes mean, None while they may become a version yet.

    `is_over`: the peer has closed the connection, or its time is up.
    """
    if is_banner(data):
        return Answer(Kind.READY, port)
    said = _shown(data.partition(b"\n")[0])
    if data.startswith(BUSY):
        return Answer(Kind.TURNED_AWAY, port, said)
    if len(data) >= LONGEST:
        return Answer(Kind.STRANGE, port, said)
    if not is_over:
        return None
    return Answer(Kind.STRANGE, port, said) if data.strip() else Answer(Kind.CLOSED, port)


def of_error(number: int, port: int) -> Answer:
    """Return what an errno of connect(2) means."""
    if number == errno.ECONNREFUSED:
        return Answer(Kind.REFUSED, port)
    if number == errno.ETIMEDOUT:
        return Answer(Kind.TIMED_OUT, port)
    return Answer(Kind.UNREACHABLE, port, os.strerror(number))


def _shown(line: bytes) -> str:
    """Return a stranger's words fit for a log: printable ASCII, and not many."""
    text = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in line.rstrip(b"\r")[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
