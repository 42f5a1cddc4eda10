"""The figures of issue 3, section 6, and how each is taken.

The peers take turns within a round, so that what else the machine does meets all of them; a figure is the median of
its rounds. CPU is that of the peer's processes with all their children, and of the hub; it has neither the stand-in's
nor the pods' in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from .measure import MIB, BenchmarkError, Process, pss_mib
from .report import AS_DECIMAL, AS_FRACTION, Figure, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .measure import Cost
    from .peers import Peer
    from .stage import Stage

_HOLD_S = 120.0  # for all of many launches to run
_BLOCK = MIB
_PODS = 4  # where a figure is not about many of them


class Size(NamedTuple):
    """How much is measured."""

    exec_rounds: int = 15
    held: int = 128
    held_rounds: int = 3
    stdout_mib: int = 1024
    stdout_rounds: int = 3
    stdin_mib: int = 256
    stdin_rounds: int = 5
    sessions: int = 1024
    sessions_rounds: int = 3


FULL = Size()
QUICK = Size(3, 16, 1, 64, 1, 32, 1, 64, 1)

_EXECS_IN_A_ROUND = {"kubectl": 5}  # of the others 40


class Files(NamedTuple):
    """Descriptors for the measured processes: nothing to read, and a file for what they complain of."""

    null: int
    errors: int

    def complaint(self) -> str:
        """The last line on their stderr."""
        size = os.fstat(self.errors).st_size
        lines = os.pread(self.errors, 4096, max(0, size - 4096)).decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else "without a word"


@contextlib.contextmanager
def _files() -> Iterator[Files]:
    null = os.open(os.devnull, os.O_RDWR)
    errors = os.memfd_create("stderr")
    try:
        yield Files(null, errors)
    finally:
        os.close(null)
        os.close(errors)


def one_exec(stage: Stage, size: Size) -> list[Figure]:
    """`true` in a pod, one after the other."""
    cpu_ms: dict[str, list[float]] = {}
    wall_ms: dict[str, list[float]] = {}
    with stage.hubs() as hubs, _files() as files:
        peers: list[Peer] = [stage.kubectl, *hubs]
        _warm(peers, stage.workers[:_PODS], files)
        for number in range(size.exec_rounds):
            stage.say(f"one exec: round {number + 1} of {size.exec_rounds}")
            for peer in peers:
                count, before = _EXECS_IN_A_ROUND.get(peer.name, 40), peer.cpu_s()
                costs = [_run(peer, stage.workers[turn % _PODS], "true", files) for turn in range(count)]
                for cost in costs:
                    _checked(cost, peer, files)
                total_s = sum(cost.cpu_s for cost in costs) + peer.cpu_s() - before
                cpu_ms.setdefault(peer.name, []).append(total_s / count * 1000)
                wall_ms.setdefault(peer.name, []).append(statistics.median(cost.wall_s for cost in costs) * 1000)
    return [
        *_beside_all(Figure("one exec: CPU", "ms", cpu_ms, Target("hub", 1 / 20, 1 / 30), AS_FRACTION)),
        *_beside_all(Figure("one exec: wall time", "ms", wall_ms, Target("hub", 1 / 4, 1 / 10), AS_FRACTION)),
    ]


def held(stage: Stage, size: Size) -> list[Figure]:
    """Many at once, one in each pod, from the start of the first to the end of the last."""
    cpu_s: dict[str, list[float]] = {}
    memory_mib: dict[str, list[float]] = {}
    pods = stage.workers[: size.held]
    with stage.hubs() as hubs, _files() as files:
        peers: list[Peer] = [stage.kubectl, *hubs]
        for number in range(size.held_rounds):
            for peer in peers:
                stage.say(f"{size.held} held at once: round {number + 1} of {size.held_rounds}, {peer.name}")
                before = peer.cpu_s()
                seen = _hold(peer, pods, stage.folder, files)
                cpu_s.setdefault(peer.name, []).append(seen.cpu_s + peer.cpu_s() - before)
                memory_mib.setdefault(peer.name, []).append(seen.processes_mib + seen.hub_mib)
    name = f"{size.held} held at once"
    return [
        *_beside_all(Figure(f"{name}: CPU", "s", cpu_s, Target("hub", 1 / 40, 1 / 60), AS_FRACTION)),
        *_beside_all(Figure(f"{name}: memory", "MiB", memory_mib, Target("hub", 1 / 40, 1 / 60), AS_FRACTION)),
    ]


def sessions(stage: Stage, size: Size) -> list[Figure]:
    """The hub alone, with as many sessions as it promises to hold."""
    memory_mib: dict[str, list[float]] = {}
    # Few pods: a hub's first launch in a worker looks at all its processes, which is the worker's cost, not the hub's.
    pods = [stage.workers[number % _PODS] for number in range(size.sessions)]
    for number in range(size.sessions_rounds):
        stage.say(f"{size.sessions} sessions in one hub: round {number + 1} of {size.sessions_rounds}")
        with stage.hubs() as hubs, _files() as files:
            for hub in hubs:
                _warm([hub], stage.workers[:_PODS], files)
                memory_mib.setdefault(hub.name, []).append(_hold(hub, pods, stage.folder, files).hub_mib)
    target = Target("hub", 64, 48, is_ratio=False)
    return _beside_all(Figure(f"hub with {size.sessions:,} sessions: memory", "MiB", memory_mib, target))


def stdout(stage: Stage, size: Size) -> list[Figure]:
    """A pod's zeros through a pipe that is emptied by splice(2) alone."""
    count = size.stdout_mib * MIB
    text = f"head -c {count} /dev/zero"

    def run(peer: Peer, files: Files) -> Cost:
        read, write = os.pipe()
        process = Process(peer.command(stage.workers[0], text), stdin=files.null, stdout=write, stderr=files.errors)
        os.close(write)
        arrived = 0
        while moved := os.splice(read, files.null, _BLOCK):
            arrived += moved
        os.close(read)
        cost = _checked(process.wait(), peer, files)
        if arrived != count:
            raise BenchmarkError(f"{peer.name}: {arrived} bytes of stdout arrived instead of {count}")
        return cost

    rate, cpu_s = _flow(stage, run, count, size.stdout_rounds, "stdout")
    name = f"stdout {_amount(size.stdout_mib)}"
    return [
        *_beside_all(Figure(f"{name}: rate", "MB/s", rate, Target("hub", 1.0, 1.2, more_is_better=True))),
        *_beside_all(Figure(f"{name}: CPU", "s", cpu_s, Target("hub", 1 / 1.0, 1 / 1.2))),
    ]


def stdin(stage: Stage, size: Size) -> list[Figure]:
    """Random bytes from a pipe, to a command that counts them."""
    count = size.stdin_mib * MIB
    block = os.memfd_create("block")
    os.write(block, os.urandom(_BLOCK))

    def run(peer: Peer, files: Files) -> Cost:
        (source, feed), (answer, out) = os.pipe(), os.pipe()
        command = peer.command(stage.workers[0], "wc -c", stdin=True)
        process = Process(command, stdin=source, stdout=out, stderr=files.errors)
        os.close(source)
        os.close(out)
        with contextlib.suppress(BrokenPipeError):  # told by the exit code
            for _ in range(size.stdin_mib):
                sent = 0
                while sent < _BLOCK:
                    sent += os.splice(block, feed, _BLOCK - sent, offset_src=sent)
        os.close(feed)
        counted = os.read(answer, 64).decode().strip()
        os.close(answer)
        cost = _checked(process.wait(), peer, files)
        if counted != str(count):
            raise BenchmarkError(f"{peer.name}: {counted} bytes of stdin arrived instead of {count}")
        return cost

    try:
        rate, cpu_s = _flow(stage, run, count, size.stdin_rounds, "stdin")
    finally:
        os.close(block)
    name = f"stdin {_amount(size.stdin_mib)}"
    return [
        *_beside_all(Figure(f"{name}: rate", "MB/s", rate, Target("hub", 1.2, 1.5, more_is_better=True))),
        *_beside_all(Figure(f"{name}: CPU", "s", cpu_s, Target("hub"))),
    ]


ALL = {"exec": one_exec, "held": held, "sessions": sessions, "stdout": stdout, "stdin": stdin}


def _beside_all(figure: Figure) -> list[Figure]:
    """A figure, and the same beside each hub of an earlier commit."""
    target = Target("hub", 1.0, 1.0, more_is_better=figure.target.more_is_better)
    others = [name for name in figure.samples if name not in ("kubectl", "hub")]
    return [figure, *(figure._replace(target=target._replace(peer=name), form=AS_DECIMAL) for name in others)]


def _flow(
    stage: Stage, run: Callable[[Peer, Files], Cost], count: int, rounds: int, what: str
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """MB/s and CPU seconds of moving `count` bytes, by peer."""
    rate: dict[str, list[float]] = {}
    cpu_s: dict[str, list[float]] = {}
    with stage.hubs() as hubs, _files() as files:
        peers: list[Peer] = [stage.kubectl, *hubs]
        _warm(peers, stage.workers[:1], files)
        for number in range(rounds):
            for peer in peers:
                stage.say(f"{what}: round {number + 1} of {rounds}, {peer.name}")
                before = peer.cpu_s()
                cost = run(peer, files)
                rate.setdefault(peer.name, []).append(count / cost.wall_s / 1e6)
                cpu_s.setdefault(peer.name, []).append(cost.cpu_s + peer.cpu_s() - before)
    return rate, cpu_s


class Held(NamedTuple):
    """What many at once took: the CPU of their processes, and memory while all of them ran."""

    cpu_s: float
    processes_mib: float
    hub_mib: float


def _warm(peers: Sequence[Peer], pods: Sequence[str], files: Files) -> None:
    """Let each peer do what it does once: compile, cache, look for an earlier launcher's leftovers in a worker."""
    for peer in peers:
        for pod in pods:
            _checked(_run(peer, pod, "true", files), peer, files)


def _run(peer: Peer, pod: str, text: str, files: Files) -> Cost:
    return Process(peer.command(pod, text), stdin=files.null, stdout=files.null, stderr=files.errors).wait()


def _checked(cost: Cost, peer: Peer, files: Files) -> Cost:
    if cost.code != 0:
        raise BenchmarkError(f"{peer.name} ended with {cost.code}: {files.complaint()}")
    return cost


def _hold(peer: Peer, pods: Sequence[str], folder: str, files: Files) -> Held:
    """Start a command in each of the pods, take their memory when all run, let them end."""
    gate = os.path.join(folder, "gate")
    os.mkfifo(gate)
    started, out = os.pipe()
    processes: list[Process] = []
    try:
        for pod in pods:
            # Opening the FIFO to read it takes until somebody opens it to write.
            command = peer.command(pod, f"echo; : <{gate}")
            processes.append(Process(command, stdin=files.null, stdout=out, stderr=files.errors))
        _await_bytes(started, len(pods), peer, files)
        memory = sum(pss_mib(process.pid) for process in processes), peer.memory_mib()
        opened = os.open(gate, os.O_WRONLY)
        # It stays open to the end, for those that are on their way from their `echo` to it.
        costs = [_checked(process.wait(), peer, files) for process in processes]
        os.close(opened)
    finally:
        for process in processes:
            process.kill()
        for fd in (started, out):
            os.close(fd)
        os.unlink(gate)
    return Held(sum(cost.cpu_s for cost in costs), *memory)


def _await_bytes(fd: int, count: int, peer: Peer, files: Files) -> None:
    deadline = time.monotonic() + _HOLD_S
    while count > 0:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise BenchmarkError(
                f"{peer.name}: {count} launches did not start within {_HOLD_S:g} s: {files.complaint()}"
            )
        count -= len(os.read(fd, count))


def _amount(mib: int) -> str:
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"
