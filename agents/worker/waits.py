"""What a process waits for, by /proc/PID: its system call, the file of that, and the kernel function it sleeps in.

proc_pid_syscall(5) needs the right to trace the process, proc_pid_wchan(5) to read its memory map, and
proc_pid_stack(5) the capability SYS_ADMIN: what may not be read is empty. All are of the main thread.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_READ_MAX = 16384  # bytes
_FRAMES_MAX = 32
RUNNING = "running"  # the kernel's word in /proc/PID/syscall for a process that is in none

# Calls that wait, by x86_64's number and by aarch64's (0: it has none): arch/x86/entry/syscalls/syscall_64.tbl and
# include/uapi/asm-generic/unistd.h of Linux. The first argument of these is a descriptor:
_OF_A_FILE = {
    "read": (0, 63), "write": (1, 64), "ioctl": (16, 29), "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65),
    "writev": (20, 66), "connect": (42, 203), "accept": (43, 202), "sendto": (44, 206), "recvfrom": (45, 207),
    "sendmsg": (46, 211), "recvmsg": (47, 212), "fcntl": (72, 25), "flock": (73, 32), "fsync": (74, 82),
    "fdatasync": (75, 83), "accept4": (288, 242),
}  # fmt: skip
_CALLS = _OF_A_FILE | {
    "poll": (7, 0), "select": (23, 0), "sched_yield": (24, 124), "pause": (34, 0), "nanosleep": (35, 101),
    "wait4": (61, 260), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "futex": (202, 98),
    "clock_nanosleep": (230, 115), "epoll_wait": (232, 0), "waitid": (247, 95), "openat": (257, 56),
    "newfstatat": (262, 79), "pselect6": (270, 72), "ppoll": (271, 73), "epoll_pwait": (281, 22),
    "io_uring_enter": (426, 426), "epoll_pwait2": (441, 441), "futex_waitv": (449, 449),
}  # fmt: skip
_NUMBERS = {
    "x86_64": {numbers[0]: name for name, numbers in _CALLS.items()},
    "aarch64": {numbers[1]: name for name, numbers in _CALLS.items() if numbers[1]},
}


class Waits(NamedTuple):
    """What a process waits for; empty where it is not known."""

    call: str = ""
    """The system call, `syscall N` for one that is not listed here, or `running` for a process that is in none."""
    file: str = ""
    """What the call is about: a path, `socket`, `pipe`."""
    function: str = ""
    """The kernel function that it sleeps in."""
    stack: tuple[str, ...] = ()
    """The kernel's functions, the innermost first."""


def waits(pid: int) -> Waits:
    """Return what a process waits for."""
    call, fd = parse_call(_text(pid, "syscall"), os.uname().machine)
    function = _text(pid, "wchan")
    return Waits(call, _file(pid, fd), "" if function == "0" else function, parse_stack(_text(pid, "stack")))


def parse_call(text: str, machine: str) -> tuple[str, int | None]:
    """Read /proc/PID/syscall: the call, and the descriptor that it is about. Its addresses are left out."""
    number, _, rest = text.partition(" ")
    if not number.isdecimal():  # -1: it waits, but in no call
        return number if number == RUNNING else "", None
    name = _NUMBERS.get(machine, {}).get(int(number), f"syscall {number}")
    first = rest.partition(" ")[0]
    return name, int(first, 16) if name in _OF_A_FILE and first.startswith("0x") else None


def parse_stack(text: str) -> tuple[str, ...]:
    """Read /proc/PID/stack: lines such as `[<0>] futex_wait_queue+0x63/0x90`."""
    frames = [line.partition("] ")[2].partition("+")[0] for line in text.splitlines()]
    return tuple(frame for frame in frames if frame)[:_FRAMES_MAX]


def _text(pid: int, name: str) -> str:
    try:
        with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:
            return file.read(_READ_MAX).strip()
    except OSError:
        return ""


def _file(pid: int, fd: int | None) -> str:
    try:
        target = "" if fd is None else os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""
    return target.partition(":[")[0]  # of socket:[4711], pipe:[4712]
