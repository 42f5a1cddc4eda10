"""What a job says by itself, and what its pods say of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agents.client import starting
from agents.client.doctor.check import Check, Group, fail, ok, skip, warn
from agents.client.facts import Facts
from agents.client.model import Explanation, State
from agents.common.not_ready import NotReady
from agents.job.model import LAUNCHER, WORKER, Job, Problem
from agents.job.template import main_container

_SHOWN = 16  # problems, and groups of pods
_PASSING = frozenset({"absent", "gated", "schedule", "accept", "pull", "init", "unready", "address"})


def validity(read: Job | tuple[Problem, ...]) -> list[Check]:
    """Check a job as our operator reads it, and look for names that nothing reads."""
    name = "valid"
    if isinstance(read, tuple):
        return [fail(Group.JOB, name, str(one), "Correct this field.") for one in read[:_SHOWN]]
    found = [warn(Group.JOB, "names", str(one), "Correct the name, or remove it.") for one in read.ignored[:_SHOWN]]
    size = f"{read.worker.replicas} workers with {read.slots} slots each"
    return [ok(Group.JOB, name, f"dialect {read.dialect}, transport {read.transport}, {size}"), *found]


def images(job: Job) -> Check:
    """Check that launcher and workers have the same image: mpirun and its daemons must be of one version."""
    name = "images"
    found = {role: _image(job, role) for role in (LAUNCHER, WORKER)}
    if not found[WORKER] or found[LAUNCHER] == found[WORKER]:
        return ok(Group.JOB, name, f"launcher and workers: {found[LAUNCHER]}")
    what = f"launcher {found[LAUNCHER]}, workers {found[WORKER]}"
    return warn(Group.JOB, name, what, "Both must have the same MPI in the same place; --probe compares them.")


def _image(job: Job, role: str) -> str:
    template = (job.launcher if role == LAUNCHER else job.worker).template
    if not template:
        return ""
    return str(main_container(template, job.main_container).get("image") or "none")


def state(why: Explanation) -> Check:
    """Check where a job is in its life: what `why` says."""
    name = "state"
    if why.state in {State.FAILED, State.BLOCKED, State.RESTARTING}:
        return fail(Group.JOB, name, why.what, why.remedy or "Its output says more: `kubectl mpi logs`.")
    is_quiet = why.state is State.RUNNING and not why.reason  # which is no fault of many programs
    if is_quiet or (why.state in {State.RUNNING, State.SUCCEEDED} and not why.remedy):
        return ok(Group.JOB, name, why.what)
    return warn(Group.JOB, name, why.what, why.remedy)


def pods(facts: Facts) -> list[Check]:
    """Check a job's pods: one check for each reason why some are not ready."""
    if facts.has_ended:
        return [skip(Group.PODS, "ready", "the job has ended")]
    if facts.is_suspended:
        return [skip(Group.PODS, "ready", "the job is suspended")]
    reasons: dict[str, list[tuple[str, NotReady]]] = {}
    for name, why in _unready(facts):
        reasons.setdefault(str(why), []).append((name, why))
    found = [_pods(same) for same in list(reasons.values())[:_SHOWN]]
    return found or [ok(Group.PODS, "ready", f"{facts.ready} of {facts.wanted} workers, and the launcher")]


def _unready(facts: Facts) -> Iterable[tuple[str, NotReady]]:
    """Give the pods that are not ready, and why. A launcher that only starts is left out while its workers do."""
    waiting = [(name, why) for name, why, _ in facts.waiting()]
    yield from waiting
    launcher = facts.launcher
    if launcher is None or launcher.why is None or launcher.state.phase == "Succeeded":
        return
    why = starting.held_back(launcher.why, launcher.uid, facts.events)
    if not (waiting and why.kind in _PASSING):
        yield launcher.name, why


def _pods(same: list[tuple[str, NotReady]]) -> Check:
    name, why = same[0]
    others = f" and {len(same) - 1} more" if len(same) > 1 else ""
    what = f"{name}{others}: {why}"
    check = "images" if why.kind in {"image", "never"} else "ready"
    result = warn if why.kind in _PASSING else fail
    describe = f"`kubectl describe pod {name}` shows more."
    otherwise = "If it stays so, see `kubectl mpi events`." if why.kind == "absent" else describe
    return result(Group.PODS, check, what, starting.remedy(why, name) or otherwise)
