"""What a job's pods run where it is debugged, or goes on after a pause. Pure."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from agents.job.model import LAUNCHER, WORKER, Dialect, Override
from agents.job.template import main_container

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.model import Job, Object, Role

# As T9k's `sleep inf`, which not every image's sleep understands; this one ends when told to, and reaps its children.
WAIT = ("/bin/sh", "-c", "trap 'exit 0' TERM; while sleep 3600 & wait $!; do :; done")

_T9K_SSHD = "/usr/bin/sshd"  # in T9k's documents, where no distribution has it: the job's own sshd is meant
_SSHD_OPTIONS = {"-D", "-e", "-De", "-eD"}


def effective(job: Job, *, is_resumed: bool) -> Job:
    """Return the job with what its pods are to run now.

    Debugged: the launcher waits for its user, who starts mpirun by hand, and the workers are as ever, where the
    replicaSpecs don't say otherwise. `is_resumed`: it has been paused before, and resumeSpecs hold.
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
