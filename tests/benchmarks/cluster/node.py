"""What containers cost, as the node's kernel tells: cgroups' CPU clocks, processes' memory. Needs root on the node."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from tests.benchmarks.measure import BenchmarkError, pss_mib, rss_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CGROUPS = "/sys/fs/cgroup"
_PAUSE_S = 0.02  # between two looks at all processes' memory


class Container:
    """A container that runs on this machine."""

    def __init__(self, status: dict[str, str]) -> None:
        """Raises BenchmarkError if it runs elsewhere."""
        self.name = status["name"]
        lines = _membership(status["containerID"].rpartition("/")[2])
        # "0::PATH" is version 2's; version 1 has a line for each controller, and version 2's beside it.
        self._is_v1 = "cpuacct" in lines
        self._folder = f"{_CGROUPS}/cpuacct{lines['cpuacct']}" if self._is_v1 else f"{_CGROUPS}{lines['']}"

    def cpu_s(self) -> float:
        """CPU time so far of all that ever ran in it."""
        if self._is_v1:
            with open(f"{self._folder}/cpuacct.usage", encoding="ascii") as file:
                return int(file.read()) / 1e9
        with open(f"{self._folder}/cpu.stat", encoding="ascii") as file:
            return int(dict(line.split() for line in file)["usage_usec"]) / 1e6

    def pids(self) -> list[int]:
        """Its processes."""
        with open(f"{self._folder}/cgroup.procs", encoding="ascii") as file:
            return [int(line) for line in file]

    def rss_mib(self) -> float:
        """Memory of its processes, pages of files that they have mapped in full."""
        return sum(_known(rss_mib, pid) for pid in self.pids())

    def agents_mib(self) -> float:
        """PSS of what mpirun has started: each page once, however many agents share it. Page cache is not in it."""
        processes = {pid: found for pid in self.pids() if (found := _stat(pid))}

        def is_agent(pid: int) -> bool:
            # A child of mpirun that is not the agent yet still has its name, and its memory.
            parent = processes[pid][1]
            return parent in processes and (processes[parent][0] == "mpirun" or is_agent(parent))

        return sum(_known(pss_mib, pid) for pid in processes if processes[pid][0] != "mpirun" and is_agent(pid))


class Peak:
    """The highest memory that was seen from `with` to its end: of what mpirun has started, and of `beside`."""

    def __init__(self, main: Container, beside: Container | None) -> None:
        self._main, self._beside = main, beside
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.mib = 0.0

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE_S):
            now = self._main.agents_mib() + (self._beside.rss_mib() if self._beside else 0.0)
            self.mib = max(self.mib, now)


def _membership(container: str) -> dict[str, str]:
    """The cgroups of a container's processes, by controller."""
    for pid in _all_pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            text = file.read()
            if container in text:
                fields = [line.split(":", 2) for line in text.splitlines()]
                return {name: path for _, names, path in fields for name in names.split(",")}
    raise BenchmarkError("the launcher pod's processes are not on this machine: CPU and memory are read on its node")


def _all_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _stat(pid: int) -> tuple[str, int] | None:
    """A process's name and parent; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
    except OSError:
        return None
    return before.partition("(")[2], int(after.split()[1])


def _known(memory: Callable[[int], float], pid: int) -> float:
    try:
        return memory(pid)
    except (OSError, BenchmarkError):  # it has ended meanwhile: an ended process has neither file nor fields
        return 0.0
