"""Which Python runs the agents: distributions build it so differently that a start's CPU varies by a factor of two."""

from __future__ import annotations

import glob
import os
import statistics
import sys

from .measure import BenchmarkError, Command, Process

_PLACES = [os.path.dirname(os.path.realpath(sys.executable)), "/usr/local/bin", "/usr/bin"]
_OLDEST = (3, 11)
_TRIES = 7
# What the hub can't do without, from the standard library.
_PROBE = "import _ssl, _socket, select, heapq, os; os._exit(0)"
_ABOUT = "import sys; print(*sys.version_info[:3], sep='.', end='')"


def lightest() -> str:
    """The interpreter, of those found in the usual places, that starts with the least CPU. Raises BenchmarkError."""
    found = {}
    for path in _candidates():
        cost = _start_cpu_s(path)
        if cost is not None:
            found[path] = cost
    if not found:
        raise BenchmarkError("no Python 3.11 or later was found beside the one that runs this")
    return min(found, key=lambda path: found[path])


def version(python: str) -> str:
    """Its version. Raises BenchmarkError if it is none, or too old for the agents."""
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        code = (
            Process(Command([python, "-I", "-S", "-E", "-c", _ABOUT], {}), stdin=null, stdout=write, stderr=null)
            .wait()
            .code
        )
        os.close(write)
        text = os.read(read, 64).decode()
    except OSError as error:
        raise BenchmarkError(f"{python} can't be run: {error.strerror}") from None
    finally:
        os.close(read)
        os.close(null)
    if code != 0 or tuple(map(int, text.split(".")[:2])) < _OLDEST:
        raise BenchmarkError(f"{python} is no Python 3.11 or later")
    return text


def _candidates() -> list[str]:
    paths = {os.path.realpath(sys.executable)}
    for place in _PLACES:
        for path in glob.glob(os.path.join(place, "python3.[0-9]*")):
            name = os.path.basename(path)
            if name.removeprefix("python3.").isdigit() and int(name.removeprefix("python3.")) >= _OLDEST[1]:
                paths.add(os.path.realpath(path))
    return sorted(paths)


def _start_cpu_s(python: str) -> float | None:
    null = os.open(os.devnull, os.O_RDWR)
    command = Command([python, "-I", "-S", "-E", "-c", _PROBE], {})
    try:
        costs = [Process(command, stdin=null, stdout=null, stderr=null).wait() for _ in range(_TRIES)]
    except OSError:
        return None
    finally:
        os.close(null)
    if any(cost.code for cost in costs):
        return None
    return statistics.median(cost.cpu_s for cost in costs)
