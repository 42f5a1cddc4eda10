"""What the keeper makes of what it is told, and what is said where no sshd comes."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common.loop import Loop
from agents.common.ssh_probe import Outcome, Result
from agents.worker import sock_diag, sshd_monitor
from agents.worker.settings import Settings
from agents.worker.sock_diag import Listener, SockDiag
from agents.worker.sshd_monitor import SshdMonitor
from agents.worker.sshd_state import AGAIN_S, CONFIRM_S, UNSEEN_CONFIRM_S, Phase, SshdState
from tests.ports import free_port
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path

SSHD = Listener(2222, inode=7)
BANNER = Result(Outcome.READY, 2222, "SSH-2.0-OpenSSH_9.2p1")
OTHER = Result(Outcome.NOT_SSH, 2222, "220 smtp")
SILENT = Result(Outcome.SILENT, 2222)
BUSY = Result(Outcome.BUSY, 2222, "Exceeded MaxStartups")
REFUSED = Result(Outcome.REFUSED, 2222)
WAYS: dict[Phase, list[Result | None]] = {
    Phase.STARTING: [],
    Phase.READY: [BANNER],
    Phase.SILENT: [BANNER, SILENT],
    Phase.FOREIGN: [OTHER],
    Phase.DEAD: [BANNER, None],
}
"""How each state is reached; None: nothing listens any more."""


def told(keeper: SshdState, answer: Result | None) -> str:
    return keeper.gone("it was killed") if answer is None else keeper.heard(SSHD, answer)


def keeper_in(state: Phase) -> SshdState:
    keeper = SshdState((2222,))
    for answer in WAYS[state]:
        told(keeper, answer)
    assert keeper.state is state
    return keeper


@pytest.mark.parametrize(
    ("state", "answer", "after"),
    [
        (Phase.STARTING, None, Phase.STARTING),
        (Phase.STARTING, BANNER, Phase.READY),
        (Phase.STARTING, BUSY, Phase.READY),
        (Phase.STARTING, SILENT, Phase.SILENT),
        (Phase.STARTING, OTHER, Phase.FOREIGN),
        (Phase.STARTING, REFUSED, Phase.STARTING),
        (Phase.READY, None, Phase.DEAD),
        (Phase.READY, BANNER, Phase.READY),
        (Phase.READY, BUSY, Phase.READY),
        (Phase.READY, SILENT, Phase.SILENT),
        (Phase.READY, OTHER, Phase.FOREIGN),
        (Phase.READY, REFUSED, Phase.DEAD),
        (Phase.SILENT, None, Phase.DEAD),
        (Phase.SILENT, BANNER, Phase.READY),
        (Phase.SILENT, BUSY, Phase.READY),
        (Phase.SILENT, SILENT, Phase.SILENT),
        (Phase.SILENT, OTHER, Phase.FOREIGN),
        (Phase.FOREIGN, None, Phase.STARTING),
        (Phase.FOREIGN, BANNER, Phase.READY),
        (Phase.FOREIGN, SILENT, Phase.SILENT),
        (Phase.FOREIGN, OTHER, Phase.FOREIGN),
        (Phase.DEAD, None, Phase.DEAD),
        (Phase.DEAD, BANNER, Phase.READY),
        (Phase.DEAD, BUSY, Phase.READY),
        (Phase.DEAD, SILENT, Phase.SILENT),
        (Phase.DEAD, OTHER, Phase.FOREIGN),
        (Phase.DEAD, REFUSED, Phase.DEAD),
    ],
)
def test_the_table_of_states(state: Phase, answer: Result | None, after: Phase) -> None:
    keeper = keeper_in(state)
    line = told(keeper, answer)
    assert keeper.state is after
    assert bool(line) == (state is not after), "a line for each change, and for nothing else"
    assert keeper.is_ready == (after is Phase.READY)


@given(st.lists(st.sampled_from([BANNER, OTHER, SILENT, BUSY, REFUSED, None])))
def test_it_is_ready_only_while_the_last_answer_was_an_sshds(answers: list[Result | None]) -> None:
    keeper = SshdState((2222,))
    losses = 0
    for answer in answers:
        before = keeper.is_ready
        told(keeper, answer)
        losses += before and not keeper.is_ready
    assert keeper.is_ready == (bool(answers) and answers[-1] in (BANNER, BUSY))
    assert keeper.losses == losses


@pytest.mark.parametrize("answer", [SILENT, OTHER])
def test_what_never_answered_has_not_ended(answer: Result) -> None:
    keeper = SshdState((2222,))
    keeper.heard(SSHD, answer)
    assert keeper.gone() == "nothing listens at port 2222 any more"
    assert (keeper.state, keeper.losses) == (Phase.STARTING, 0)


def test_it_says_why_and_where() -> None:
    keeper = SshdState((2222,))
    assert keeper.heard(SSHD, BANNER) == "sshd answers at port 2222: SSH-2.0-OpenSSH_9.2p1"
    assert keeper.gone("it was killed") == "sshd is gone from port 2222: it was killed"
    assert keeper.heard(SSHD, BANNER) == "sshd answers again at port 2222: SSH-2.0-OpenSSH_9.2p1"
    assert keeper.heard(SSHD, Result(Outcome.SILENT, 2222, "process 7 is stopped")).endswith(": process 7 is stopped")
    assert keeper.losses == 2


def test_a_socket_is_asked_once_until_it_is_another() -> None:
    keeper, there = SshdState((22, 2222)), {2222: SSHD}
    assert keeper.look({}, 0) is None
    assert keeper.look(there, 0) == SSHD
    assert keeper.look(there, 0.1) is None, "the answer is under way"
    keeper.heard(SSHD, BANNER)
    assert keeper.look(there, CONFIRM_S - 1) is None
    assert keeper.look(there, CONFIRM_S) == SSHD
    new = SSHD._replace(inode=8)
    assert keeper.look({2222: new}, CONFIRM_S + 1) == new


def test_a_socket_without_a_banner_is_asked_again() -> None:
    keeper, there = SshdState((2222,)), {2222: SSHD}
    assert keeper.look(there, 0) == SSHD
    keeper.heard(SSHD, SILENT)
    assert keeper.look(there, AGAIN_S - 0.1) is None
    assert keeper.look(there, AGAIN_S) == SSHD


def test_where_the_kernel_tells_nothing_it_asks_all_candidates() -> None:
    keeper = SshdState((22, 2222))
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
    keeper = SshdState((22, 2222))
    keeper.heard(SSHD, BANNER)
    assert keeper.heard(Listener(22, inode=1), OTHER) == ""
    assert (keeper.state, keeper.port) == (Phase.READY, 2222)


def netlink(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def diag(state: int, inode: int) -> bytes:
    """struct inet_diag_msg, include/uapi/linux/inet_diag.h: 72 bytes, the inode last."""
    return bytes([socket.AF_INET, state, 0, 0]) + bytes(48 + 16) + struct.pack("=I", inode)


def test_the_question_for_a_listening_socket() -> None:
    """struct inet_diag_req_v2, by hand: the state LISTEN alone, 127.0.0.1, any peer, no cookie."""
    assert sock_diag.request(socket.AF_INET, "127.0.0.1", 2222) == (
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
    assert sock_diag.inode_of(message) == inode


@pytest.mark.parametrize("message", [b"", netlink(20, b"short"), netlink(3, b""), netlink(2, struct.pack("=i", -95))])
def test_answers_that_tell_nothing(message: bytes) -> None:
    with pytest.raises(OSError):  # noqa: PT011 (any)
        sock_diag.inode_of(message)


def test_the_kernel_tells_of_real_sockets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as known, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [one.getsockname()[1] for one in (known, other)]
        asked = sock_diag.SockDiag(ports[0])
        found = asked.read((ports[1], 1))
        asked.close()
        if found is None:
            pytest.skip("the kernel has no sock_diag")
        assert found[ports[1]].address == "127.0.0.1"
        assert found[ports[1]].inode > 0
        assert 1 not in found
    assert sock_diag.SockDiag(1).read((1,)) is None, "a kernel that doesn't find what is there is not believed"


def test_a_port_that_says_nothing_does_not_keep_sshd_at_another_from_its_turn() -> None:
    state, now = SshdState((22, 2222)), 0.0
    both = {22: Listener(22, inode=6), 2222: SSHD}
    assert state.look(both, now) == both[22]
    now += AGAIN_S  # so long its probe took
    state.heard(both[22], Result(Outcome.NOT_SSH, 22, "220 smtp"))
    assert state.look(both, now) == SSHD


def test_an_sshd_that_does_not_come_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshd_monitor, "LOGGED_AFTER_S", 0.0)
    loop, said, port = Loop(), list[str](), free_port()

    def say(line: str) -> None:
        said.append(line)
        loop.stop()

    with socket.create_server(("127.0.0.1", 0)) as known:
        settings = Settings(ports=(port,), volume=str(tmp_path))
        watched = SshdMonitor(loop, settings, SockDiag(known.getsockname()[1]), None, say)
        watched.look()
        loop.call_later(DEADLINE_S, loop.stop)
        loop.run()
        watched.close()
    assert len(said) == 1
    assert said[0].startswith(f"no sshd at port {port} yet: nothing listens there: see ")
