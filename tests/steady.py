"""`make test-steady`: the contract tests in random order, several rounds, beside two busy processes per core.

It lists each test that failed with its count. It is the pytest plugin of its rounds, too.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

_SEED, _FAILED = "TEST_STEADY_SEED", "TEST_STEADY_FAILED"  # variables: a round's seed; the file for what failed
_BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"  # also ends after a SIGKILL of this command


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle files, and the tests of each. All processes of a round do it in the same way."""
    rank = random.Random(os.environ[_SEED])
    files = {item.path: rank.random() for item in items}
    order = {item: (files[item.path], rank.random()) for item in items}
    items.sort(key=order.__getitem__)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down a test that failed. xdist calls this in its main process, too."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ[_FAILED], "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid.encode('unicode_escape').decode()}\n")


def _round(seed: int, arguments: Sequence[str]) -> set[str]:
    """Run the tests once; return those that failed."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="steady-") as failed:
        options = ["--numprocesses=auto", "--dist=loadfile", "--no-loadscope-reorder", "-q", "-p", __spec__.name]
        command = [sys.executable, "-m", "pytest", *options, *(arguments or ["tests/contract"])]
        code = subprocess.run(
            command, env={**os.environ, _SEED: str(seed), _FAILED: failed.name}, check=False
        ).returncode
        found = {line.rstrip("\n") for line in failed}
    return found or ({f"(pytest itself: exit code {code})"} if code else set())


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    command = [sys.executable, "-S", "-c", _BUSY, str(os.getpid())]
    # Not in the terminal's process group: Ctrl-C would print a traceback of each.
    processes = [subprocess.Popen(command, process_group=0) for _ in range(2 * len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> int:
    """Run `ROUNDS [PYTEST ARGUMENT...]`; return 1 if a test failed."""
    rounds = int(sys.argv[1])
    counts: Counter[str] = Counter()
    with _busy():
        for number in range(1, rounds + 1):
            seed, began = random.SystemRandom().randrange(1 << 32), time.monotonic()
            failed = _round(seed, sys.argv[2:])
            counts.update(failed)
            took = time.monotonic() - began
            print(f"round {number} of {rounds} ({_SEED}={seed}): {len(failed)} failed, {took:.0f} s", flush=True)
    for test, count in counts.most_common():
        print(f"failed {count} of {rounds}: {test}")
    return 1 if counts else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
