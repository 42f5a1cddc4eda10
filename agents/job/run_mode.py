"""`spec.runMode`, which jobs of every dialect have: debug and pause, and what the pods run then. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from agents.job.fields import Fields, Settings
from agents.job.json_object import Object
from agents.job.model import LAUNCHER, WORKER, Dialect, Job, Override, Role
from agents.job.template import main_container


class RoleType(StrEnum):
    """What `type` names."""

    LAUNCHER = LAUNCHER
    WORKER = WORKER


@dataclass(frozen=True, slots=True)
class RunMode:
    """`debug` is None unless debug mode is on; `resume` holds when a paused job is resumed."""

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
        pause.add(f"can't be true while {debug.path('enabled')} is: switch one of them off", "enabled")
    overrides = _overrides(debug.fields, "replicaSpecs")
    resume = _overrides(pause.fields, "resumeSpecs")
    return RunMode(overrides if is_debugged else None, is_paused, resume)


def read_type(role: Fields, known: Mapping[str, object]) -> str:
    """Return the role that an entry of a list is about, "" if it names none or one that is `known` already."""
    chosen = role.choice("type", RoleType)
    if role.value.get("type") in (None, ""):
        role.add("is required: launcher or worker", "type")
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


# As T9k's `sleep inf`, which not every image's sleep understands; this one ends on SIGTERM, and reaps its children.
WAIT = ("/bin/sh", "-c", "trap 'exit 0' TERM; while sleep 3600 & wait $!; do :; done")

_T9K_SSHD = "/usr/bin/sshd"  # in T9k's documents, where no distribution has it: the job's own sshd is meant
_SSHD_OPTIONS = {"-D", "-e", "-De", "-eD"}


def effective(job: Job, *, is_resumed: bool) -> Job:
    """Return the job with what its pods are to run now.

    Debugged: the launcher waits for its user, who starts mpirun by hand, and the workers run as
    usual, unless the replicaSpecs say otherwise. `is_resumed`: it has been paused before, and resumeSpecs hold.
    """
    if job.debug is not None:
        given = job.debug.get(LAUNCHER, Override())
        waiting = given if given.command is not None else replace(given, command=WAIT)
        return replace(_overridden(job, {**job.debug, LAUNCHER: waiting}), launcher_waits=False)
    if not (is_resumed and job.resume):
        return job
    resumed = _overridden(job, job.resume)
    if job.dialect is not Dialect.T9K:
        return resumed
    main = main_container(resumed.launcher.template, job.main_container)
    return replace(resumed, launch_command=(*main.get("command", ()), *main.get("args", ())))


def _overridden(job: Job, overrides: Mapping[str, Override]) -> Job:
    launcher, worker = overrides.get(LAUNCHER, Override()), overrides.get(WORKER, Override())
    ssh = job.ssh
    if sshd := _lone_sshd(worker):  # the transport starts it better: with the job's keys and configuration
        worker = replace(worker, command=(), args=())
        ssh = ssh if sshd == _T9K_SSHD else replace(ssh, sshd_path=sshd)
    return replace(
        job,
        launcher=_changed(job.launcher, launcher, job.main_container),
        worker=_changed(job.worker, worker, job.main_container),
        ssh=ssh,
    )


def _lone_sshd(override: Override) -> str:
    """Return the path of the sshd that is all an override runs, "" if it runs something else."""
    program, *options = override.command or ("",)
    options += override.args or ()
    is_lone = os.path.basename(program) == "sshd" and os.path.isabs(program) and _SSHD_OPTIONS.issuperset(options)
    return program if is_lone else ""


def _changed(role: Role, override: Override, main: str) -> Role:
    """Return the role with the override. A command drops the arguments that were for another one; () is none."""
    if override == Override() or not role.template:
        return role
    spec = role.template["spec"]
    chosen = main_container(role.template, main)
    changes: dict[str, tuple[str, ...]] = {}
    if override.command is not None:
        changes |= {"command": override.command, "args": ()}
    if override.args is not None:
        changes["args"] = override.args
    kept: Object = {key: value for key, value in chosen.items() if key not in changes}
    kept = {**kept, **{key: list(words) for key, words in changes.items() if words}}
    containers = [kept if one is chosen else one for one in spec["containers"]]
    dropped = ("initContainers",) if override.skips_init_containers else ()
    new = {key: value for key, value in spec.items() if key not in dropped} | {"containers": containers}
    return replace(role, template={**role.template, "spec": new})
