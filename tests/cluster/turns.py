"""Which cluster tests run side by side, and which wait for others.

xdist gives each of its processes a group of tests at a time, in this order:

`definition`  tests under kubeflow's operators, and of the definition: our operator isn't installed meanwhile
a test        that needs no operator; then one of our operator, which all processes share. Tests of a module that
              share a fixture are a group
`alone`       tests of many workers, of the node's faults, and those that change what others use: all others wait

A process holds a group's locks from its first test to its last. All take them in one order, so none waits in a circle.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from typing import IO, TYPE_CHECKING

from tests.cluster.local.places import Places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

_DEFINITION = ("tests/cluster/definition/", "tests/cluster/operators/")
_ALONE = {"node", "fleet", "bare", "others", "gang_scheduler", "kueue", "no_namespace_ends"}


def group(item: pytest.Item) -> str:
    """The group that a test belongs to: `definition`, `alone`, its module, or itself."""
    if item.nodeid.startswith(_DEFINITION):
        return "definition"
    if item.get_closest_marker("alone") or _ALONE & _fixtures(item):
        return "alone"
    return item.nodeid.partition("::")[0].removeprefix("tests/cluster/") if _shares(item) else item.nodeid


def order(item: pytest.Item) -> tuple[bool, bool, bool, bool]:
    """Where a test's group comes in the row of groups. Slow ones come early: nobody waits for them at the end."""
    is_definition = group(item) == "definition"
    is_slow = item.get_closest_marker("slow") is not None
    return group(item) == "alone", _is_of_our_operator(item), not is_definition, is_definition or not is_slow


def _is_of_our_operator(item: pytest.Item) -> bool:
    return group(item) != "definition" and "installed" in _fixtures(item)


def _shares(item: pytest.Item) -> bool:
    """Whether it has a fixture that other tests of its module have, too."""
    known = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 (pytest has no other way to ask)
    return any(found[-1].scope not in ("function", "session") for found in known)


def _fixtures(item: pytest.Item) -> set[str]:
    return {*getattr(item, "fixturenames", ())}


def one_session() -> IO[str]:
    """Wait until no other run of tests or benchmark uses operators from this machine; held until it is closed."""
    folder = Places.of().cache / "turns"
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "session").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for the end of another run that uses the cluster's operators", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


class Turns:
    """The locks of one of xdist's processes."""

    def __init__(self) -> None:
        folder = Places.of().cache / "turns"
        folder.mkdir(parents=True, exist_ok=True)
        self._definition = _Lock(folder / "definition")  # a cluster has one definition of MPIJobs
        self._node = _Lock(folder / "node")
        self.release = Shared(folder / "release")
        self.emptied = Shared(folder / "emptied")

    def begin(self, item: pytest.Item) -> None:
        """Wait until a test's group may run."""
        name = group(item)
        if name == "definition":
            self._definition.take(fcntl.LOCK_EX)
        elif _is_of_our_operator(item) and not self._definition.is_held:
            self._node.release()  # an earlier test's of the group: it is taken last
            self._definition.take(fcntl.LOCK_SH)
        self._node.take(fcntl.LOCK_EX if name == "alone" else fcntl.LOCK_SH)

    def end(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Let other groups run after a group's last test. Our operator stays in use to the session's end."""
        if following is None or group(following) != group(item):
            self._node.release()
            if group(item) == "definition" or following is None:
                self._definition.release()

    def is_last_user(self) -> bool:
        """Whether no other process uses our operator; after that this one doesn't either, and nobody begins to."""
        return self._definition.tries(fcntl.LOCK_EX)


class Shared:
    """Something that is made once for all processes of a run of tests, and what its maker says of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = _Lock(path.with_suffix(".lock"))
        self._run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else makes or removes it meanwhile."""
        self._lock.take()
        try:
            yield
        finally:
            self._lock.release()

    def said(self) -> str | None:
        """What its maker said; None if this run has not made it."""
        with contextlib.suppress(OSError):
            run, said = self._path.read_text().split("\n", 1)
            return said if run == self._run else None
        return None

    def say(self, text: str | None) -> None:
        """Say that it is made; or, with None, that it is gone."""
        if text is None:
            self._path.unlink(missing_ok=True)
        else:
            self._path.write_text(f"{self._run}\n{text}")


class _Lock:
    """A lock that processes share by a file; taken again in the same way, it is held already."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._how = 0

    @property
    def is_held(self) -> bool:
        """Whether it was taken and not given back."""
        return self._file is not None

    def take(self, how: int = fcntl.LOCK_EX) -> None:
        """Wait for it."""
        if self._how != how:
            self._file = self._file or self._path.open("w")
            fcntl.flock(self._file, how)
            self._how = how

    def tries(self, how: int) -> bool:
        """Take it if that needs no waiting; else it isn't held any more."""
        try:
            self.take(how | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        return True

    def release(self) -> None:
        """Give it back."""
        if self._file:
            self._file.close()
        self._file, self._how = None, 0
