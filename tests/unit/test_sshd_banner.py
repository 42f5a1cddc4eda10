"""What an sshd says first, and everything else that may be said at its port."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshd_bootstrap.banner import is_banner

DEBIAN = b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u10\r\n"


@pytest.mark.parametrize(
    "received",
    [DEBIAN, b"SSH-1.99-x\n", b"welcome\r\nto SSH-\r\n" + DEBIAN, DEBIAN + b"\x00\x00\x05\xec\n"],
)
def test_banners(received: bytes) -> None:
    assert is_banner(received)


@pytest.mark.parametrize("received", [b"", b"220 mail\r\n", b" SSH-2.0-x\n", b"ssh-2.0-x\n", b"welcome to SSH-2.0\n"])
def test_what_is_none(received: bytes) -> None:
    assert not is_banner(received)


@given(st.integers(0, len(DEBIAN) - 1))
def test_a_part_of_one_is_none_yet(end: int) -> None:
    assert not is_banner(DEBIAN[:end])


@given(st.lists(st.binary(max_size=40).map(lambda line: b"x" + line.replace(b"\n", b"")), max_size=9))
def test_lines_before_it_do_not_matter(lines: list[bytes]) -> None:
    before = b"".join(line + b"\n" for line in lines)
    assert not is_banner(before)
    assert is_banner(before + DEBIAN)
