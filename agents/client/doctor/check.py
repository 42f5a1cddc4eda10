"""What a check found. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agents.common.text import printable


class Level(StrEnum):
    """How a check ended; in the order in which checks are shown."""

    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    """It could not be made, and `what` says why."""
    OK = "ok"


class Group(StrEnum):
    """What checks are about; in the order in which they are shown."""

    RIGHTS = "rights"
    CLUSTER = "cluster"
    JOB = "job"
    ADMISSION = "admission"
    CAPACITY = "capacity"
    PODS = "pods"
    MPI = "mpi"
    SSH = "ssh"
    DNS = "dns"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. A failed one always has a remedy, and `ok` and `skip` have none."""

    group: Group
    name: str
    level: Level
    what: str
    remedy: str = ""


def ok(group: Group, name: str, what: str) -> Check:
    """Return a check that found nothing wrong."""
    return Check(group, name, Level.OK, printable(what))


def skip(group: Group, name: str, why: str) -> Check:
    """Return a check that could not be made."""
    return Check(group, name, Level.SKIP, printable(why))


def warn(group: Group, name: str, what: str, remedy: str) -> Check:
    """Return a check that found what may be wrong."""
    return Check(group, name, Level.WARN, printable(what), printable(remedy))


def fail(group: Group, name: str, what: str, remedy: str) -> Check:
    """Return a check that found what is wrong."""
    return Check(group, name, Level.FAIL, printable(what), printable(remedy))


def ordered(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks by their groups, and within a group the worst first."""
    groups, levels = list(Group), list(Level)
    return tuple(sorted(checks, key=lambda one: (groups.index(one.group), levels.index(one.level))))
