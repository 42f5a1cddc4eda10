"""Who has outlived a launch, what is done about it, and by what a process is known."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.worker import orphans
from agents.worker.orphans import KILL_AFTER_S, Key, OrphanCleaner, Process, ProcessTree, Traces
from rshagent.call.bootstrap import Mark, request

MARK = "pi:pi-launcher:1:s1:"


@pytest.mark.parametrize(
    ("environ", "traces"),
    [
        (b"", Traces()),
        (b"PATH=/bin\0OMPI_COMM_WORLD_RANK=7\0PMIX_RANK=8\0", Traces(7)),
        (b"PMIX_RANK=8\0PMI_RANK=9", Traces(8)),
        (b"PMI_RANK=0\0", Traces(0)),
        (b"PMIX_RANK=4294967295\0PMI_RANK=9\0", Traces(9)),
        (b"PMI_RANK=-1\0", Traces()),
        (b"PMI_RANK=\0", Traces()),
        (b"XPMI_RANK=3\0PMI_RANK2=3\0", Traces()),
        (b"PMI_RANK=1\0PMI_RANK=2\0", Traces(1)),
        (b"MPI_AGENT_MARK=" + MARK.encode() + b"\0PMI_RANK=1\0", Traces(1, MARK)),
        (b"SSH_CONNECTION=10.0.0.1 1 10.0.0.2 2222\0", Traces(None, "ssh")),
        (b"SSH_CONNECTION=\0", Traces()),
        (b"MPI_AGENT_MARK=" + MARK.encode() + b"\0SSH_CONNECTION=a\0", Traces(None, MARK)),
        (b"A=PMI_RANK=3\nPMI_RANK=4\0", Traces()),
    ],
)
def test_what_an_environment_tells(environ: bytes, traces: Traces) -> None:
    assert orphans.traces(environ) == traces


@given(st.binary())
def test_no_environment_is_too_strange(environ: bytes) -> None:
    orphans.traces(environ)
    orphans.bootstrapped(environ)


@pytest.mark.parametrize("text", [b"orted --daemonize", b"x" * 200_000])
def test_a_bootstrap_is_known_by_its_command_line(text: bytes) -> None:
    made = request(text, Mark("pi", "pi-launcher", "1", "s1"), sweep=True)
    assert orphans.bootstrapped(b"\0".join(made.command) + b"\0") == MARK
    assert orphans.bootstrapped(text) == ""


def test_a_launch_is_called_by_its_session() -> None:
    assert [orphans.session(launch) for launch in (MARK, "ssh", "")] == ["s1", "ssh", ""]


def process(pid: int, ppid: int, sid: int, name: str = "a.out", **more: object) -> Process:
    return Process(pid, ppid, sid, started=float(pid), name=name)._replace(**more)  # type: ignore[arg-type]


PAUSE = process(1, 0, 1, "pause")
SSHD = process(10, 0, 10, "sshd")
MONITOR = process(11, 10, 11, "sshd")
SHELL = process(12, 11, 12, "sh", launch="ssh")
BOOTSTRAP = process(20, 0, 20, "sh", bootstrap=MARK)


def rank(pid: int, ppid: int, sid: int, launch: str = "ssh", **more: object) -> Process:
    return process(pid, ppid, sid)._replace(launch=launch, **more)  # type: ignore[arg-type]


TREES: dict[str, tuple[list[Process], set[int]]] = {
    "a session of sshd": ([PAUSE, SSHD, MONITOR, SHELL, rank(30, 12, 12)], set()),
    "one that OpenSSH 9.8 calls otherwise": (
        [PAUSE, SSHD, MONITOR._replace(name="sshd-session"), SHELL, rank(30, 12, 12)],
        set(),
    ),
    "its session ended": ([PAUSE, SSHD, rank(30, 1, 12)], {30}),
    "its session ended, and sshd is the first process": ([process(1, 0, 1, "sshd"), rank(30, 1, 12)], {30}),
    "with all that it has started": ([PAUSE, SSHD, rank(30, 1, 12), rank(31, 30, 31), rank(32, 31, 31)], {30, 31, 32}),
    "a daemon with ranks": ([PAUSE, SSHD, rank(30, 1, 30, name="orted"), rank(31, 30, 30)], set()),
    "the daemon ended": ([PAUSE, SSHD, rank(31, 1, 30), rank(32, 1, 30)], {31, 32}),
    "the daemon is a zombie": ([PAUSE, rank(30, 1, 30, state="zombie"), rank(31, 1, 30)], {31}),
    "a session that isn't to be seen": ([PAUSE, rank(30, 1, 0)], set()),
    "an exec session": ([PAUSE, BOOTSTRAP, rank(21, 20, 20, MARK), rank(22, 21, 20, MARK)], set()),
    "its bootstrap ended": ([PAUSE, rank(21, 1, 20, MARK), rank(22, 21, 20, MARK)], {21, 22}),
    "an orphan of one that runs": ([PAUSE, BOOTSTRAP, rank(22, 1, 21, MARK)], set()),
    "an orphan of one, while another runs": ([PAUSE, BOOTSTRAP, rank(22, 1, 21, "other:")], {22}),
    "a daemon of an exec session": ([PAUSE, rank(22, 1, 22, MARK, name="orted"), rank(23, 22, 22, MARK)], set()),
    "of no launch": ([PAUSE, process(40, 1, 39), process(41, 40, 39)], set()),
    "zombies stay what they are": ([PAUSE, rank(30, 1, 12, state="zombie")], set()),
    "a circle of process ids": ([process(2, 3, 9, launch="ssh"), process(3, 2, 9)], {2}),
}


@pytest.mark.parametrize(("processes", "left"), TREES.values(), ids=TREES)
def test_who_is_left_over(processes: list[Process], left: set[int]) -> None:
    assert {one.pid for one in ProcessTree(processes).orphans(())} == left


def test_who_was_seen_in_a_session_is_known_when_its_environment_is_closed() -> None:
    closed = process(30, 12, 12, is_denied=True)
    remembered = ProcessTree([PAUSE, SSHD, MONITOR, SHELL, closed]).started_by_launch()
    assert remembered == {SHELL.key, closed.key}
    orphan = closed._replace(ppid=1)
    assert ProcessTree([PAUSE, SSHD, orphan]).orphans(remembered) == [orphan]
    assert ProcessTree([PAUSE, SSHD, orphan]).orphans(()) == []
    another = orphan._replace(started=99.0)
    assert ProcessTree([PAUSE, SSHD, another]).orphans(remembered) == [], "its process id was reused"


def test_which_sshd_listens() -> None:
    younger = process(50, 0, 50, "sshd", launch="")
    ended = SSHD._replace(pid=7, started=1.0, state=orphans.ZOMBIE)
    session = process(8, 1, 1, "sshd-session", launch="")
    assert ProcessTree([ended, session, younger, MONITOR, SSHD, PAUSE]).listener() == SSHD
    assert ProcessTree([PAUSE]).listener() is None


trees = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["sh", "sshd", "a"]), st.sampled_from(["", "ssh"])),
    max_size=9,
)


@given(trees)
def test_nothing_of_a_running_session_is_ever_left_over(tree: list[tuple[int, int, str, str]]) -> None:
    processes = [
        process(pid, ppid, sid, name, launch=launch) for pid, (ppid, sid, name, launch) in enumerate(tree, start=1)
    ]
    found = ProcessTree(processes)
    left = {one.key for one in found.orphans({one.key for one in processes})}
    assert not left & found.started_by_launch()
    assert not any(one.is_sshd for one in processes if one.key in left)


class Told:
    """What a cleaner says and does, second by second."""

    def __init__(self, grace_s: float = 60.0) -> None:
        self.lines: list[str] = []
        self.cleaner = OrphanCleaner(grace_s, self.lines.append)

    def at(self, now: float, *left: Process, is_debug: bool = False) -> list[tuple[int, str]]:
        orders = self.cleaner.step(left, now, is_debug=is_debug)
        return [(order.process.pid, order.number.name) for order in orders]


LEFT = rank(30, 1, 12, rank=3)


def test_term_after_the_grace_and_kill_after_that() -> None:
    told = Told()
    assert told.at(100, LEFT) == []
    assert told.cleaner.next_due(100) == 60
    assert told.at(159, LEFT) == []
    assert told.at(160, LEFT) == [(30, "SIGTERM")]
    assert told.at(160 + KILL_AFTER_S - 1, LEFT) == []
    assert told.at(160 + KILL_AFTER_S, LEFT) == [(30, "SIGKILL")]
    assert told.at(200, LEFT) == []
    assert told.cleaner.next_due(200) is None
    assert told.at(201) == []
    assert told.cleaner.ended == 1
    assert told.lines == [
        "process (30 a.out rank 3) outlived the launch: terminating in 60 s",
        "SIGTERM to process (30 a.out rank 3)",
        "SIGKILL to process (30 a.out rank 3)",
        "the orphan has ended",
    ]


def test_who_ends_within_the_grace_is_not_counted() -> None:
    told = Told()
    told.at(0, LEFT)
    assert told.at(59) == []
    assert told.cleaner.ended == 0
    assert told.at(61, LEFT) == [], "the grace begins again"


def test_debug_leaves_them_alone_and_the_grace_begins_after_it() -> None:
    told = Told()
    told.at(0, LEFT)
    assert told.at(70, LEFT, is_debug=True) == []
    assert told.cleaner.next_due(70) is None
    assert told.at(100, LEFT) == []
    assert told.at(160, LEFT) == [(30, "SIGTERM")]


def test_what_is_forbidden_is_said_once_and_not_tried_again() -> None:
    told = Told(grace_s=0.0)
    other = LEFT._replace(pid=31, started=31.0)
    assert told.at(0, LEFT, other) == [(30, "SIGTERM"), (31, "SIGTERM")]
    told.cleaner.deny(LEFT, 1000)
    told.cleaner.deny(other, 1000)
    assert told.at(100, LEFT, other) == []
    assert told.cleaner.denied == 2
    assert told.cleaner.next_due(100) is None
    assert sum("can't be ended by uid 1000" in line for line in told.lines) == 1
    assert told.at(101, other) == []
    assert (told.cleaner.denied, told.cleaner.ended) == (1, 0)


def test_many_are_told_in_one_line() -> None:
    told = Told()
    told.at(0, *(rank(pid, 1, 12, rank=pid) for pid in range(100, 112)))
    assert told.lines == [
        "12 processes (100 a.out rank 100, 101 a.out rank 101, 102 a.out rank 102, 103 a.out rank 103,"
        " 104 a.out rank 104, 105 a.out rank 105, 106 a.out rank 106, 107 a.out rank 107 and 4 more)"
        " outlived the launch: terminating in 60 s"
    ]


@given(st.lists(st.tuples(st.sets(st.integers(2, 5)), st.booleans()), max_size=30))
def test_nobody_is_signalled_before_a_grace_without_debug(seconds: list[tuple[set[int], bool]]) -> None:
    told = Told(grace_s=3.0)
    since: dict[Key, int] = {}
    signalled: dict[Key, list[signal.Signals]] = {}
    for now, (pids, is_debug) in enumerate(seconds):
        left = [rank(pid, 1, 12) for pid in pids]
        since = {} if is_debug else {one.key: since.get(one.key, now) for one in left}
        signalled = {} if is_debug else {one.key: signalled.get(one.key, []) for one in left}
        for order in told.cleaner.step(left, now, is_debug=is_debug):
            assert now - since[order.process.key] >= 3
            signalled[order.process.key].append(order.number)
        assert all(sent in ([], [signal.SIGTERM], [signal.SIGTERM, signal.SIGKILL]) for sent in signalled.values())
