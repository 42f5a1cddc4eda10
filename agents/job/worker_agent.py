"""The setting `workerAgent`: true or false, or an object that says what the agent is for."""

from __future__ import annotations

from collections.abc import Mapping

from agents.job.fields import Settings
from agents.job.model import WorkerAgent

_KEY = "workerAgent"


def read_worker_agent(settings: Settings) -> WorkerAgent | None:
    """Return whether workers have the agent, None if the job does not say. An object asks for it."""
    if settings.is_annotated(_KEY):
        return settings.choice(_KEY, WorkerAgent)
    if isinstance(settings.fields.value.get(_KEY), Mapping):
        processes = settings.child(_KEY, {"processes": _KEY}).flag("processes")  # no annotation but the one above
        return WorkerAgent.PROCESSES if processes else WorkerAgent.ALONE
    flag = settings.flag(_KEY)
    return None if flag is None else WorkerAgent(str(flag).lower())
