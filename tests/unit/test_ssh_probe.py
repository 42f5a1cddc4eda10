"""What a probe of a port tells: an sshd's first bytes, and everything else that may come."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common.ssh_probe import LONGEST, Outcome, Result, classify, of_error

DEBIAN = b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10\r\n"
MORE = None  # nothing can be told yet

BYTES: dict[str, tuple[bytes, bool, Outcome | None, str]] = {
    "OpenSSH": (
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
        False,
        Outcome.READY,
        "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3",
    ),
    "for old clients too": (b"SSH-1.99-Cisco-1.25\r\n", False, Outcome.READY, "SSH-1.99-Cisco-1.25"),
    "lines come first (RFC 4253, 4.2)": (b"Welcome\r\nto us\r\nSSH-2.0-x\r\n", False, Outcome.READY, "SSH-2.0-x"),
    "what follows the version": (b"SSH-2.0-x\r\n\x00\x00\x03\xcc\x07", False, Outcome.READY, "SSH-2.0-x"),
    "half of a version": (b"SSH-2.0-Open", False, MORE, ""),
    "nothing yet": (b"", False, MORE, ""),
    "half of a version and the end": (b"SSH-2.0-Open", True, Outcome.NOT_SSH, "SSH-2.0-Open"),
    "end without a word": (b"", True, Outcome.CLOSED, ""),
    "blanks and the end": (b"\r\n", True, Outcome.CLOSED, ""),
    "too many at once": (b"Exceeded MaxStartups\r\n", False, Outcome.BUSY, "Exceeded MaxStartups"),
    "penalised": (b"Not allowed at this time\r\n", False, Outcome.BUSY, "Not allowed at this time"),
    "a web server": (
        b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n",
        True,
        Outcome.NOT_SSH,
        "HTTP/1.1 400 Bad Request",
    ),
    "it may still come": (b"HTTP/1.1 400 Bad Request\r\n", False, MORE, ""),
    "endless words": (b"x" * LONGEST, False, Outcome.NOT_SSH, "x" * 60 + "…"),
    "another program": (b"220 smtp\r\n", True, Outcome.NOT_SSH, "220 smtp"),
    "binary": (b"\x16\x03", True, Outcome.NOT_SSH, "??"),
    "not at the beginning of a line": (b"welcome to SSH-2.0\n", True, Outcome.NOT_SSH, "welcome to SSH-2.0"),
    "indented": (b" SSH-2.0-x\n", True, Outcome.NOT_SSH, " SSH-2.0-x"),
    "in small letters": (b"ssh-2.0-x\n", True, Outcome.NOT_SSH, "ssh-2.0-x"),
    "bytes for no log": (b"\x1b[2J\xff\x00ok", True, Outcome.NOT_SSH, "?[2J??ok"),
}


@pytest.mark.parametrize(("data", "is_over", "outcome", "text"), BYTES.values(), ids=BYTES)
def test_first_bytes(data: bytes, is_over: bool, outcome: Outcome | None, text: str) -> None:
    assert classify(data, 2222, is_over=is_over) == (None if outcome is None else Result(outcome, 2222, text))


@given(st.binary(max_size=300), st.booleans())
def test_whatever_comes_is_told_in_few_plain_words(data: bytes, is_over: bool) -> None:
    found = classify(data, 22, is_over=is_over)
    assert found is not None or not is_over
    if found is not None:
        assert len(found.text) <= 61
        assert found.text.rstrip("…").isascii()
        assert found.text.isprintable()


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_what_was_told_of_a_beginning_holds_for_the_whole(pieces: list[bytes]) -> None:
    """Bytes come in any pieces: where a beginning is an sshd's, so is the whole."""
    data = b""
    for piece in pieces:
        before = classify(data, 22, is_over=False)
        data += piece
        if before is not None and before.outcome is Outcome.READY:
            found = classify(data, 22, is_over=True)
            assert found is not None
            assert found.outcome is Outcome.READY


@given(st.integers(0, len(DEBIAN) - 1))
def test_a_part_of_a_banner_is_none_yet(end: int) -> None:
    assert classify(DEBIAN[:end], 22, is_over=False) is None


@given(st.lists(st.binary(max_size=40).map(lambda line: b"x" + line.replace(b"\n", b"")), max_size=9))
def test_lines_before_it_do_not_matter(lines: list[bytes]) -> None:
    before = b"".join(line + b"\n" for line in lines)
    assert classify(before, 22, is_over=False) is None
    found = classify(before + DEBIAN, 22, is_over=False)
    assert found is not None
    assert found.outcome is Outcome.READY


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (errno.ECONNREFUSED, Outcome.REFUSED),
        (errno.ETIMEDOUT, Outcome.TIMED_OUT),
        (errno.EHOSTUNREACH, Outcome.UNREACHABLE),
        (errno.ENETUNREACH, Outcome.UNREACHABLE),
        (errno.EAFNOSUPPORT, Outcome.UNREACHABLE),
        (errno.EMFILE, Outcome.UNREACHABLE),
    ],
)
def test_errors_of_connect(number: int, outcome: Outcome) -> None:
    assert of_error(number, 22).outcome is outcome
