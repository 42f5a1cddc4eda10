"""What the keeper makes of what it is told."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.worker import listening
from agents.worker.keeper import AGAIN_S, CONFIRM_S, UNSEEN_CONFIRM_S, Answer, Heard, Keeper, State, understood
from agents.worker.listening import Listener

SSHD = Listener(2222, inode=7)
BANNER = Answer(Heard.BANNER, "SSH-2.0-OpenSSH_9.2p1")
OTHER = Answer(Heard.FOREIGN, "220 smtp")
SILENT = Answer(Heard.SILENT)
BUSY = Answer(Heard.BUSY, "Exceeded MaxStartups")
REFUSED = Answer(Heard.REFUSED)
WAYS: dict[State, list[Answer | None]] = {
    State.STARTING: [],
    State.READY: [BANNER],
    State.SILENT: [BANNER, SILENT],
    State.FOREIGN: [OTHER],
    State.DEAD: [BANNER, None],
}
"""How each state is reached; None: nothing listens any more."""


def told(keeper: Keeper, answer: Answer | None) -> str:
    return keeper.gone("it was killed") if answer is None else keeper.heard(SSHD, answer)


def keeper_in(state: State) -> Keeper:
    keeper = Keeper((2222,))
    for answer in WAYS[state]:
        told(keeper, answer)
    assert keeper.state is state
    return keeper


@pytest.mark.parametrize(
    ("state", "answer", "after"),
    [
        (State.STARTING, None, State.STARTING),
        (State.STARTING, BANNER, State.READY),
        (State.STARTING, BUSY, State.READY),
        (State.STARTING, SILENT, State.SILENT),
        (State.STARTING, OTHER, State.FOREIGN),
        (State.STARTING, REFUSED, State.STARTING),
        (State.READY, None, State.DEAD),
        (State.READY, BANNER, State.READY),
        (State.READY, BUSY, State.READY),
        (State.READY, SILENT, State.SILENT),
        (State.READY, OTHER, State.FOREIGN),
        (State.READY, REFUSED, State.DEAD),
        (State.SILENT, None, State.DEAD),
        (State.SILENT, BANNER, State.READY),
        (State.SILENT, BUSY, State.READY),
        (State.SILENT, SILENT, State.SILENT),
        (State.SILENT, OTHER, State.FOREIGN),
        (State.FOREIGN, None, State.STARTING),
        (State.FOREIGN, BANNER, State.READY),
        (State.FOREIGN, SILENT, State.SILENT),
        (State.FOREIGN, OTHER, State.FOREIGN),
        (State.DEAD, None, State.DEAD),
        (State.DEAD, BANNER, State.READY),
        (State.DEAD, BUSY, State.READY),
        (State.DEAD, SILENT, State.SILENT),
        (State.DEAD, OTHER, State.FOREIGN),
        (State.DEAD, REFUSED, State.DEAD),
    ],
)
def test_the_table_of_states(state: State, answer: Answer | None, after: State) -> None:
    keeper = keeper_in(state)
    line = told(keeper, answer)
    assert keeper.state is after
    assert bool(line) == (state is not after), "a line for each change, and for nothing else"
    assert keeper.is_ready == (after is State.READY)


@given(st.lists(st.sampled_from([BANNER, OTHER, SILENT, BUSY, REFUSED, None])))
def test_it_is_ready_only_while_the_last_answer_was_an_sshds(answers: list[Answer | None]) -> None:
    keeper = Keeper((2222,))
    losses = 0
    for answer in answers:
        before = keeper.is_ready
        told(keeper, answer)
        losses += before and not keeper.is_ready
    assert keeper.is_ready == (bool(answers) and answers[-1] in (BANNER, BUSY))
    assert keeper.losses == losses


@pytest.mark.parametrize("answer", [SILENT, OTHER])
def test_what_never_answered_has_not_ended(answer: Answer) -> None:
    keeper = Keeper((2222,))
    keeper.heard(SSHD, answer)
    assert keeper.gone() == "nothing listens at port 2222 any more"
    assert (keeper.state, keeper.losses) == (State.STARTING, 0)


def test_it_says_why_and_where() -> None:
    keeper = Keeper((2222,))
    assert keeper.heard(SSHD, BANNER) == "sshd answers at port 2222: SSH-2.0-OpenSSH_9.2p1"
    assert keeper.gone("it was killed") == "sshd is gone from port 2222: it was killed"
    assert keeper.heard(SSHD, BANNER) == "sshd answers again at port 2222: SSH-2.0-OpenSSH_9.2p1"
    assert keeper.heard(SSHD, Answer(Heard.SILENT, "process 7 is stopped")).endswith(": process 7 is stopped")
    assert keeper.losses == 2


def test_a_socket_is_asked_once_until_it_is_another() -> None:
    keeper, there = Keeper((22, 2222)), {2222: SSHD}
    assert keeper.look({}, 0) is None
    assert keeper.look(there, 0) == SSHD
    assert keeper.look(there, 0.1) is None, "the answer is under way"
    keeper.heard(SSHD, BANNER)
    assert keeper.look(there, CONFIRM_S - 1) is None
    assert keeper.look(there, CONFIRM_S) == SSHD
    new = SSHD._replace(inode=8)
    assert keeper.look({2222: new}, CONFIRM_S + 1) == new


def test_a_socket_without_a_banner_is_asked_again() -> None:
    keeper, there = Keeper((2222,)), {2222: SSHD}
    assert keeper.look(there, 0) == SSHD
    keeper.heard(SSHD, SILENT)
    assert keeper.look(there, AGAIN_S - 0.1) is None
    assert keeper.look(there, AGAIN_S) == SSHD


def test_where_the_kernel_tells_nothing_it_asks_all_candidates() -> None:
    keeper = Keeper((22, 2222))
    asked = [keeper.look(None, 0), keeper.look(None, 0)]
    assert asked == [Listener(22), Listener(2222)]
    keeper.heard(Listener(22), REFUSED)
    keeper.heard(Listener(2222), BANNER)
    assert keeper.look(None, 1) is None, "the one that answers is known"
    assert keeper.look(None, UNSEEN_CONFIRM_S) == Listener(2222)
    assert not keeper.is_gone(None)
    assert keeper.heard(Listener(2222), REFUSED).startswith("sshd is gone from port 2222")
    assert keeper.look(None, UNSEEN_CONFIRM_S + 1) == Listener(22)


def test_another_candidate_without_sshd_changes_nothing() -> None:
    keeper = Keeper((22, 2222))
    keeper.heard(SSHD, BANNER)
    assert keeper.heard(Listener(22, inode=1), OTHER) == ""
    assert (keeper.state, keeper.port) == (State.READY, 2222)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", None),
        (b"SSH-2.0-Open", None),
        (b"SSH-2.0-OpenSSH_8.4p1 Debian-5\r\n", Answer(Heard.BANNER, "SSH-2.0-OpenSSH_8.4p1 Debian-5")),
        (b"SSH-2.0-x\r\nrest\x00", Answer(Heard.BANNER, "SSH-2.0-x")),
        (b"Exceeded MaxStartups\r\n", Answer(Heard.BUSY, "Exceeded MaxStartups")),
        (b"Not allowed at this time\r\n", Answer(Heard.BUSY, "Not allowed at this time")),
        (b"220 smtp\r\n", Answer(Heard.FOREIGN, "220 smtp")),
        (b"\x16\x03", Answer(Heard.FOREIGN, "\x16\x03")),
        (b"a" * 300, Answer(Heard.FOREIGN, "a" * 100)),
        (b"\xff\xfe\n", Answer(Heard.FOREIGN, r"\xff\xfe")),
    ],
)
def test_what_a_first_line_means(data: bytes, answer: Answer | None) -> None:
    assert understood(data) == answer


@given(st.binary())
def test_whatever_comes_is_answered_in_the_end(data: bytes) -> None:
    assert understood(data[:200] + b"\n") is not None


def netlink(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def diag(state: int, inode: int) -> bytes:
    """struct inet_diag_msg, include/uapi/linux/inet_diag.h: 72 bytes, the inode last."""
    return bytes([socket.AF_INET, state, 0, 0]) + bytes(48 + 16) + struct.pack("=I", inode)


def test_the_question_for_a_listening_socket() -> None:
    """struct inet_diag_req_v2, by hand: the state LISTEN alone, 127.0.0.1, any peer, no cookie."""
    assert listening.request(socket.AF_INET, "127.0.0.1", 2222) == (
        struct.pack("=IHHII", 72, 20, 1, 0, 0)
        + bytes([2, 6, 0, 0])
        + struct.pack("=I", 1 << 10)
        + b"\x08\xae\0\0"
        + b"\x7f\0\0\x01"
        + bytes(12 + 16 + 4)
        + b"\xff" * 8
    )


@pytest.mark.parametrize(
    ("message", "inode"),
    [
        (netlink(20, diag(10, 4711)), 4711),
        (netlink(20, diag(1, 4711)), None),
        (netlink(2, struct.pack("=i", -2) + bytes(16)), None),
    ],
)
def test_the_kernels_answers(message: bytes, inode: int | None) -> None:
    assert listening.inode_of(message) == inode


@pytest.mark.parametrize("message", [b"", netlink(20, b"short"), netlink(3, b""), netlink(2, struct.pack("=i", -95))])
def test_answers_that_tell_nothing(message: bytes) -> None:
    with pytest.raises(OSError):  # noqa: PT011 (any)
        listening.inode_of(message)


def test_the_kernel_tells_of_real_sockets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as known, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [one.getsockname()[1] for one in (known, other)]
        asked = listening.Listening(ports[0])
        found = asked.read((ports[1], 1))
        asked.close()
        if found is None:
            pytest.skip("the kernel has no sock_diag")
        assert found[ports[1]].address == "127.0.0.1"
        assert found[ports[1]].inode > 0
        assert 1 not in found
    assert listening.Listening(1).read((1,)) is None, "a kernel that doesn't find what is there is not believed"
