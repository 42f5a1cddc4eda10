"""What an sshd's answer means, what is said of it, and how often is looked."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery import exits
from delivery.hostfile import hosts_in
from delivery.lack import Lack, Patience
from delivery.settings import Options, settings
from delivery.sshd import pace, words
from delivery.sshd.answer import LONGEST, Answer, Kind, of_bytes, of_error
from delivery.sshd.lookups import look_up
from rshagent.hosts import Entry

MORE = None  # nothing can be told yet

BYTES: dict[str, tuple[bytes, bool, Kind | None, str]] = {
    "OpenSSH": (b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n", False, Kind.READY, ""),
    "for old clients too": (b"SSH-1.99-Cisco-1.25\r\n", False, Kind.READY, ""),
    "lines come first (RFC 4253, 4.2)": (b"Welcome\r\nto us\r\nSSH-2.0-x\r\n", False, Kind.READY, ""),
    "what follows the version": (b"SSH-2.0-x\r\n\x00\x00\x03\xcc\x07", False, Kind.READY, ""),
    "half of a version": (b"SSH-2.0-Open", False, MORE, ""),
    "nothing yet": (b"", False, MORE, ""),
    "half of a version and the end": (b"SSH-2.0-Open", True, Kind.STRANGE, "SSH-2.0-Open"),
    "end without a word": (b"", True, Kind.CLOSED, ""),
    "blanks and the end": (b"\r\n", True, Kind.CLOSED, ""),
    "too many at once": (b"Exceeded MaxStartups\r\n", False, Kind.TURNED_AWAY, "Exceeded MaxStartups"),
    "penalised": (b"Not allowed at this time\r\n", False, Kind.TURNED_AWAY, "Not allowed at this time"),
    "a web server": (b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", True, Kind.STRANGE, "HTTP/1.1 400 Bad Request"),
    "it may still come": (b"HTTP/1.1 400 Bad Request\r\n", False, MORE, ""),
    "endless words": (b"x" * LONGEST, False, Kind.STRANGE, "x" * 60 + "…"),
    "bytes for no log": (b"\x1b[2J\xff\x00ok", True, Kind.STRANGE, "?[2J??ok"),
}


@pytest.mark.parametrize(("data", "is_over", "kind", "said"), BYTES.values(), ids=BYTES)
def test_first_bytes(data: bytes, is_over: bool, kind: Kind | None, said: str) -> None:
    assert of_bytes(data, 2222, is_over=is_over) == (None if kind is None else Answer(kind, 2222, said))


@given(st.binary(max_size=300), st.booleans())
def test_whatever_comes_is_told_in_few_plain_words(data: bytes, is_over: bool) -> None:
    found = of_bytes(data, 22, is_over=is_over)
    assert found is not None or not is_over
    if found is not None:
        assert len(found.said) <= 61
        assert found.said.rstrip("…").isascii()
        assert found.said.isprintable()


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_what_was_told_of_a_beginning_holds_for_the_whole(pieces: list[bytes]) -> None:
    """Bytes come in any pieces: where a beginning is an sshd's, so is the whole."""
    data = b""
    for piece in pieces:
        before = of_bytes(data, 22, is_over=False)
        data += piece
        if before is not None and before.kind is Kind.READY:
            found = of_bytes(data, 22, is_over=True)
            assert found is not None
            assert found.kind is Kind.READY


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ECONNREFUSED, Kind.REFUSED),
        (errno.ETIMEDOUT, Kind.TIMED_OUT),
        (errno.EHOSTUNREACH, Kind.UNREACHABLE),
        (errno.ENETUNREACH, Kind.UNREACHABLE),
        (errno.EAFNOSUPPORT, Kind.UNREACHABLE),
        (errno.EMFILE, Kind.UNREACHABLE),
    ],
)
def test_errors_of_connect(number: int, kind: Kind) -> None:
    assert of_error(number, 22).kind is kind


LACKS: dict[str, tuple[Lack | None, str, Patience, int]] = {
    "not in DNS": (words.no_name(0, was_there=False), "not in DNS yet", Patience.ENDLESS, exits.GRACE_OVER),
    "gone": (words.no_name(0, was_there=True), "gone from DNS", Patience.REPLACEMENT, exits.GONE),
    "DNS says nothing": (
        words.no_lookup("Temporary failure in name resolution", 4.9),
        "not in DNS yet",
        Patience.ENDLESS,
        exits.GRACE_OVER,
    ),
    "DNS says nothing for long": (
        words.no_lookup("Temporary failure in name resolution", 5.0),
        "not in DNS yet: DNS gives no answer (Temporary failure in name resolution)",
        Patience.ENDLESS,
        exits.GRACE_OVER,
    ),
    "refused": (
        words.lack_of(Answer(Kind.REFUSED, 22), [22], 0),
        "not listening on port 22 yet",
        Patience.ENDLESS,
        exits.GRACE_OVER,
    ),
    "refused for long": (
        words.lack_of(Answer(Kind.REFUSED, 22), [22, 2222], 61),
        "not listening on ports 22 and 2222 yet: its image, its init containers or its sshd: see `kubectl describe pod`"
        " and `kubectl logs`",
        Patience.ENDLESS,
        exits.GRACE_OVER,
    ),
    "no route": (
        words.lack_of(Answer(Kind.UNREACHABLE, 22, "No route to host"), [22], 0),
        "not reachable: No route to host",
        Patience.GRACE,
        exits.GRACE_OVER,
    ),
    "dropped": (
        words.lack_of(Answer(Kind.TIMED_OUT, 22), [22, 2222, 2200], 0),
        "not answering on ports 22, 2222 and 2200: connections time out",
        Patience.GRACE,
        exits.GRACE_OVER,
    ),
    "silent": (
        words.lack_of(Answer(Kind.SILENT, 2222), [2222], 0),
        "silent on port 2222: something else than sshd listens there, or sshd hangs",
        Patience.GRACE,
        exits.GRACE_OVER,
    ),
    "closed": (
        words.lack_of(Answer(Kind.CLOSED, 2222), [2222], 0),
        "closing connections to port 2222: without an ssh banner",
        Patience.GRACE,
        exits.GRACE_OVER,
    ),
    "something else": (
        words.lack_of(Answer(Kind.STRANGE, 2222, "HTTP/1.1 400"), [22, 2222], 0),
        'no sshd on port 2222: what listens there says "HTTP/1.1 400"',
        Patience.GRACE,
        exits.GRACE_OVER,
    ),
    "overloaded": (
        words.lack_of(Answer(Kind.TURNED_AWAY, 2222, "Exceeded MaxStartups"), [2222], 0),
        'turning connections to port 2222 away: sshd says "Exceeded MaxStartups"',
        Patience.GRACE,
        exits.GRACE_OVER,
    ),
}


@pytest.mark.parametrize(("lack", "text", "patience", "code"), LACKS.values(), ids=LACKS)
def test_lacks_in_words(lack: Lack | None, text: str, patience: Patience, code: int) -> None:
    assert lack is not None
    assert (f"{lack.words}: {lack.detail}" if lack.detail else lack.words) == text
    assert (lack.patience, lack.exit_code) == (patience, code)
    assert lack.hint or patience is Patience.ENDLESS  # what ends the wait says what to do


def test_every_answer_has_its_words_and_a_ready_one_none() -> None:
    lacking = {kind for kind in Kind if words.lack_of(Answer(kind, 22), [22], 0) is not None}
    assert lacking == set(Kind) - {Kind.READY}


def test_few_workers_are_seen_within_a_tenth_of_a_second_at_first() -> None:
    assert pace.pause_s(0, 2, has_address=True) == 0.05
    assert pace.pause_s(3, 2, has_address=True) < 0.1
    assert pace.pause_s(3, 64, has_address=True) < 0.1


@given(st.floats(0, 1e6), st.integers(1, 5000), st.booleans())
def test_pauses_grow_and_are_bounded(waited_s: float, waiting: int, has_address: bool) -> None:
    pause = pace.pause_s(waited_s, waiting, has_address=has_address)
    assert 0.05 <= pause <= max(1.0, waiting / 300)
    assert pause <= pace.pause_s(waited_s + 1, waiting, has_address=has_address)
    assert waiting / pause <= 1500.1
    assert 0.5 <= pace.connect_s(waited_s) <= 4
    assert 2 <= pace.address_s(waited_s, waiting) <= max(10, waiting / 300)


def test_looking_up() -> None:
    assert [address.host for address in look_up("127.0.0.7").addresses] == ["127.0.0.7"]
    (address,) = look_up("::1").addresses
    assert (address.host, address.rest) == ("::1", (0, 0))
    assert look_up("localhost").addresses


@pytest.mark.parametrize("name", ["pi-worker-0.invalid", "x" * 64 + ".invalid", "ä"])
def test_names_that_are_not_there(name: str) -> None:
    assert look_up(name).addresses == ()


def test_ssh_brings_no_tools_and_writes_hosts_only_where_told_to() -> None:
    ssh = {"HOSTNAME": "x", "MPI_AGENT_TRANSPORT": "ssh"}
    found = settings(Options(), ssh)
    assert (found.is_ssh, list(found.tools), found.target) == (True, [], "")
    assert settings(Options(), {**ssh, "TARGET_DIR": "/t"}).target == "/t"
    assert settings(Options(tools=["client"]), ssh).target == "/opt/kube"
    assert not settings(Options(), {"HOSTNAME": "x", "MPI_AGENT_TRANSPORT": "exec"}).is_ssh


def test_transport_that_nobody_knows() -> None:
    with pytest.raises(exits.DeliveryError, match="MPI_AGENT_TRANSPORT is 'rsh', and can be exec or ssh") as error:
        settings(Options(), {"HOSTNAME": "x", "MPI_AGENT_TRANSPORT": "rsh"})
    assert error.value.exit_code == exits.USAGE


def test_ssh_knows_no_namespaces() -> None:
    assert hosts_in(None, [Entry("Pi-Worker-0.pi")]) == ["pi-worker-0.pi"]
    with pytest.raises(exits.DeliveryError, match="which ssh takes for no host"):
        hosts_in(None, [Entry("pi-worker-0", namespace="science")])
