"""`spec.runMode`, which jobs of every dialect have: debugging, and pausing with what runs after it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from agents.job.model import LAUNCHER, WORKER, Override, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.fields import Fields
    from agents.job.settings import Settings


class RoleType(StrEnum):
    """What `type` names."""

    LAUNCHER = LAUNCHER
    WORKER = WORKER


@dataclass(frozen=True, slots=True)
class RunMode:
    """`debug` is None unless the job is to be debugged; `resume` holds when a paused job goes on."""

    debug: Mapping[str, Override] | None
    is_paused: bool
    resume: Mapping[str, Override]


def read_run_mode(settings: Settings) -> RunMode:
    """Return the mode. Annotations mpi-agents/debug and mpi-agents/pause say `enabled`."""
    mode = settings.child("runMode")
    debug, pause = mode.child("debug", {"enabled": "debug"}), mode.child("pause", {"enabled": "pause"})
    for one in (debug, pause):
        if one.fields.value.get("enable") is not None:
            one.fields.add("is of an older generation of this API: its name is enabled now", "enable")
    is_debugged, is_paused = debug.flag("enabled") is True, pause.flag("enabled") is True
    if is_debugged and is_paused:
        words = f"can't be true while {debug.path('enabled')} is: switch one of them off"
        pause.fields.problems.append(Problem(pause.path("enabled"), words))
    overrides = _overrides(debug.fields, "replicaSpecs")
    resume = _overrides(pause.fields, "resumeSpecs")
    return RunMode(overrides if is_debugged else None, is_paused, resume)


def read_type(role: Fields, known: Mapping[str, object]) -> str:
    """Return the role that an entry of a list is about, "" if it names none or one that is `known` already."""
    chosen = role.choice("type", RoleType)
    if role.value.get("type") in (None, ""):
        role.add("must be there: launcher or worker", "type")
    if chosen is not None and str(chosen) in known:
        role.add(f'"{chosen}" is there twice', "type")
        return ""
    return str(chosen or "")


def _overrides(fields: Fields, key: str) -> Mapping[str, Override]:
    found: dict[str, Override] = {}
    for one in fields.objects(key):
        command, args = (tuple(one.texts(part)) or None for part in ("command", "args"))
        skips = one.flag("skipInitContainer") is True
        if name := read_type(one, found):
            found[name] = Override(command, args, skips)
    return found
