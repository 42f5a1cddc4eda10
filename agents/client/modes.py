"""Patches that pause, resume and debug a job, in every dialect. Pure."""

from __future__ import annotations

from agents.client.errors import RefusedError
from agents.client.facts import Facts
from agents.job.json_object import Body, part
from agents.job.model import PREFIX, annotation, is_t9k

_OUR_LABEL = f"{PREFIX}job-uid"


def paused(facts: Facts, *, is_on: bool) -> Body:
    """Return the patch that deletes a job's pods until it is resumed, or resumes it. Raises RefusedError.

    kubeflow's operators know `runPolicy.suspend`; an annotation or `runMode` that says otherwise is changed with it.
    """
    if facts.kueue_queue and not is_t9k(facts.resource):
        raise RefusedError(f"{facts.name} is in queue {facts.kueue_queue}, which suspends and resumes it by itself")
    if is_t9k(facts.resource):
        return _mode(facts, "pause", is_on=is_on, sets_field=True)
    patch = _mode(facts, "pause", is_on=is_on, sets_field=False)
    return {**patch, "spec": {**part(patch, "spec"), "runPolicy": {"suspend": is_on}}}


def debugged(facts: Facts, *, is_on: bool) -> Body:
    """Return the patch that has the next launcher wait for its user, or run its program. Raises RefusedError."""
    pods = facts.by_name.values()
    if pods and not any(key == _OUR_LABEL for pod in pods for key, _ in pod.state.labels):
        raise RefusedError(f"{facts.name} is run by another operator, which has no debug mode")
    patch = _mode(facts, "debug", is_on=is_on, sets_field=is_t9k(facts.resource))
    return patch or {"metadata": {"annotations": {annotation("debug"): str(is_on).lower()}}}


def _mode(facts: Facts, name: str, *, is_on: bool, sets_field: bool) -> Body:
    """Change the annotation and the field `runMode.<name>.enabled` if present; `sets_field`: set it always."""
    patch: Body = {}
    key = annotation(name)
    if key in part(facts.resource, "metadata", "annotations"):
        patch["metadata"] = {"annotations": {key: str(is_on).lower()}}
    if sets_field or part(facts.resource, "spec", "runMode", name).get("enabled") is not None:
        patch["spec"] = {"runMode": {name: {"enabled": is_on}}}
    return patch
