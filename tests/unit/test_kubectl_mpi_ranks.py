"""The processes of ranks as worker agents report them: read, compared, grouped and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_jobs import facts, job, pod, workers

from agents.client import ranks
from agents.client.facts import PodFacts
from agents.client.ranks import RankProcess, Sample
from agents.kubectl_mpi import processes

WORKER = PodFacts(pod("pi-worker-1", "ready"), "pi")
RANK = {"rank": 3, "pid": 20, "ppid": 1, "name": "solve", "state": "sleeping", "rss_bytes": 2 << 20, "started": 5.0}
RANK |= {"cpu_s": 1.0, "call": "read", "file": "pipe", "function": "pipe_read", "stack": []}


def sample(*found: Any, at: float = 10.0, denied: int = 0) -> Sample:
    return ranks.parse(json.dumps({"at": at, "environment_denied": denied, "ranks": found}).encode(), WORKER)


def seen(*found: Any) -> tuple[RankProcess, ...]:
    return sample(*({**RANK, "pid": number, **one} for number, one in enumerate(found))).ranks


def test_a_report() -> None:
    (one,) = sample(RANK).ranks
    assert (one.rank, one.worker, one.pod, one.pid, one.program) == (3, 1, "pi-worker-1", 20, "solve")
    assert (one.cpu_percent, ranks.where(one)) == (None, "read of pipe (kernel: pipe_read)")


@pytest.mark.parametrize("data", [b"", b"no", b"[" * 100_000])
def test_what_is_no_report(data: bytes) -> None:
    with pytest.raises(ValueError, match="answer is not"):
        ranks.parse(data, WORKER)


@pytest.mark.parametrize("data", ["[]", '{"ranks": 1, "at": "x"}', '{"ranks": [1, {"rank": -1}, {"rank": "1"}]}'])
def test_values_of_other_types_are_nothing(data: str) -> None:
    assert ranks.parse(data.encode(), WORKER).ranks == ()


def test_a_hostile_report_is_bounded() -> None:
    found = sample(*[{**RANK, "name": "\x1b[2J" * 999, "stack": ["f" * 999] * 99, "rss_bytes": 1e300}] * 2).ranks
    assert len(found[0].program) <= 200
    assert found[0].program.isprintable()
    assert (len(found[0].stack), found[0].rss_bytes) == (64, 0)
    assert len(sample(*[RANK] * 5000).ranks) == ranks.RANKS_MAX
    assert sample({**RANK, "pid": float("nan"), "cpu_s": float("inf")}).ranks[0].pid == 0


def test_a_shell_that_waits_for_its_rank_is_left_out() -> None:
    shell = {**RANK, "name": "sh", "pid": 19}
    assert [one.program for one in sample(shell, {**RANK, "ppid": 19}).ranks] == ["solve"]
    assert [one.program for one in sample(shell, RANK).ranks] == ["sh", "solve"]


@pytest.mark.parametrize(
    ("before", "percent"),
    [(dict(RANK), 50.0), ({**RANK, "cpu_s": 9.0}, 0.0), ({**RANK, "started": 6.0}, None), ({**RANK, "pid": 1}, None)],
)
def test_cpu(before: Any, percent: float | None) -> None:
    now = sample({**RANK, "cpu_s": 2.0}, at=12.0)
    assert ranks.compared(sample(before), now)[0].cpu_percent == percent
    assert ranks.compared(None, now)[0].cpu_percent is None


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"state": "stopped"}, "T stopped by a signal"),
        ({"state": "running", "call": "poll"}, ranks.BUSY),
        ({"call": "running"}, ranks.BUSY),
        ({"call": "", "file": ""}, "S waiting; kernel: pipe_read"),
        ({"call": "", "file": "", "function": ""}, "S waiting; not permitted to read what it waits for (ptrace_scope)"),
        ({"stack": ["pipe_read", "vfs_read"]}, "read of pipe (kernel: pipe_read ← vfs_read)"),
        ({"call": "futex", "file": "", "function": ""}, "futex"),
    ],
)
def test_where_a_rank_is(changes: Any, where: str) -> None:
    assert ranks.where(seen(changes)[0]) == where


def test_ranks_at_the_same_place_are_one_group() -> None:
    polls = [{"rank": rank, "call": "poll", "file": "", "function": "do_poll"} for rank in range(7)]
    found = ranks.groups(seen(*polls, {"rank": 7}))
    assert [(one.ranks, one.where) for one in found] == [
        ((0, 1, 2, 3, 4, 5, 6), "poll (kernel: do_poll)"),
        ((7,), "read of pipe (kernel: pipe_read)"),
    ]
    assert [line for group in found for line in processes.group_lines(group)] == [
        "ranks 0-6: poll (kernel: do_poll)",
        "rank 7: read of pipe (kernel: pipe_read)",
        "  pi-worker-1, process 7: solve",
    ]


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5], "0-2, 5"), ([7, 1, 8], "1, 7-8")])
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranks.ranges(numbers) == text


def test_python_stacks() -> None:
    def dump(pid: int, **threads: str) -> str:
        frame = {"filename": "/app/solve.py", "short_filename": "solve.py", "line": 12}
        made = [
            {"pid": pid, "os_thread_id": int(number[1:]), "frames": [{**frame, "name": name}, {}]}
            for number, name in threads.items()
        ]
        return json.dumps(made, indent=2)

    main = ("load (solve.py:12)", " (:0)")
    text = dump(20, _20="load") + "\n" + dump(21, _22="other", _21="load", _23="other")
    assert ranks.python_stacks(text.encode()) == {20: main, 21: main}
    assert ranks.python_stacks(f"{dump(20, _20='load')}[{{".encode()) == {20: main}
    assert ranks.python_stacks(b"sh: no [") == {}


def test_what_a_job_lacks() -> None:
    resource, pods = job("v1", "Created"), workers("ready", "ready")
    assert (
        "set spec.workerAgent: {processes: true} (`kubectl -n default annotate mpijobs.kubeflow.org/pi "
        in ranks.why_unseen(facts(resource, *pods))
    )
    pods[1]["spec"]["initContainers"] = [{"name": "agent", "command": ["mpi-worker"]}]
    assert "kubectl mpi rerun pi" in ranks.why_unseen(facts(resource, *pods))
    pods[1]["spec"]["shareProcessNamespace"] = True
    assert ranks.why_unseen(facts(resource, *pods)) == ""


def test_the_table_of_top() -> None:
    assert processes.rows(seen({"state": "disk-sleep", "rss_bytes": 3 << 29})) == [
        "RANK   POD           PID   STATE                                                     CPU%   MEMORY    PROGRAM",
        "3      pi-worker-1   0     D waiting for a disk, a network file system or a device   -      1.5 GiB   solve",
    ]
