"""Processes that are none of ours to wait for."""

import subprocess

from tests.privileges import NO_CAPABILITIES


def secrets_in_reach(pid: int) -> list[str]:
    """Return what a process of the same user, without capabilities, can open of a process that may hold a token."""
    places = [f"/proc/{pid}/{name}" for name in ("root/etc/passwd", "environ", "mem", "maps", "fd/0", "cwd/.")]
    script = 'for place; do [ ! -r "$place" ] || ! : <"$place" || echo "$place"; done 2>/dev/null'
    look = ["sh", "-c", script, "sh", *places]
    return subprocess.run([*NO_CAPABILITIES, *look], stdout=subprocess.PIPE, text=True, check=False).stdout.split()


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
