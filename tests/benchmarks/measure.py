"""Processes and what they cost: CPU, wall time, memory. Linux only."""

from __future__ import annotations

import os
import platform
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
_NOISE_CORES = 0.25
_CPUCLOCK_SCHED = 2  # clock ids made of a process id: kernel, include/linux/posix-timers_types.h


class BenchmarkError(Exception):
    """Something can't be measured; the text is one line."""


class Cost(NamedTuple):
    """What one process took, its children that it waited for included."""

    cpu_s: float
    wall_s: float
    code: int


class Command(NamedTuple):
    """What to start; nothing of our own environment is handed on."""

    argv: list[str]
    environ: Mapping[str, str]


class Process:
    """A started command. Wall time runs from before its start until it has been waited for."""

    def __init__(self, command: Command, *, stdin: int, stdout: int, stderr: int) -> None:
        self._began = time.perf_counter()
        # posix_spawn and not subprocess: the less happens here between the two clocks, the better.
        self.pid = os.posix_spawn(
            command.argv[0],
            command.argv,
            command.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((stdin, stdout, stderr))],
            setsigdef=[signal.SIGPIPE],
        )
        self._cost: Cost | None = None

    def wait(self) -> Cost:
        """Wait for the end. The kernel's CPU times of an ended process are exact, no ticks (cputime_adjust)."""
        if self._cost is None:
            _, status, usage = os.wait4(self.pid, 0)
            wall_s = time.perf_counter() - self._began
            self._cost = Cost(usage.ru_utime + usage.ru_stime, wall_s, os.waitstatus_to_exitcode(status))
        return self._cost

    def kill(self) -> None:
        """End it if it still runs."""
        if self._cost is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def cpu_s(pid: int) -> float:
    """CPU time of a live process with all its threads, to the nanosecond (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def pss_mib(pid: int) -> float:
    """Memory of a process, each page divided by the number of processes that share it."""
    return _field_mib(f"/proc/{pid}/smaps_rollup", "Pss:")


def rss_mib(pid: int) -> float:
    """Memory of a process, shared pages in full: the PSS that it would have were it alone."""
    return _field_mib(f"/proc/{pid}/smaps_rollup", "Rss:")


def peak_mib(pid: int) -> float:
    """The most memory that a process has had, shared pages in full."""
    return _field_mib(f"/proc/{pid}/status", "VmHWM:")


def _field_mib(path: str, field: str) -> float:
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    raise BenchmarkError(f"the kernel does not tell {field} in {path}")


def _processor() -> str:
    """The model of the machine's processors."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine() -> str:
    """What it is measured on."""
    return f"{os.cpu_count()} cores of {_processor()}, Linux {platform.release().split('-')[0]}"


def noise() -> str:
    """Whether something else keeps the machine busy, in a sentence."""
    busy = busy_cores(1.0)
    if busy > _NOISE_CORES:
        return f"Something else kept {busy:.1f} cores busy: only the ratios mean something."
    return "The machine was quiet."


def busy_cores(seconds: float) -> float:
    """How many cores are busy with whatever runs on the machine."""
    before = _busy_ticks()
    time.sleep(seconds)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


def _busy_ticks() -> int:
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return user + nice + system + irq + softirq + steal
