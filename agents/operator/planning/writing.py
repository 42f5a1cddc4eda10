"""Puts a plan together: whether the status is worth a request now, and what comes in which step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job.status import Urgency
from agents.operator.actions import Create, Emit, Plan, WriteStatus
from agents.operator.kinds import BATCH_JOB, POD
from agents.operator.planning.values import mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.job.status import Draft
    from agents.operator.actions import Action
    from agents.operator.planning.view import View

# How long after the last write the next one comes, if nothing in it is urgent: a start makes many small steps.
_WAITS_S = {Urgency.NONE: 0.0, Urgency.LOW: 20.0, Urgency.TROUBLE: 5.0, Urgency.AT_ONCE: 0.0}


class Steps:
    """The steps of one plan, behind the write of its status.

    A plan that makes pods writes the status even if it stays the same: a plan made from a former state of the job is
    refused there, before it makes a pod that nobody wants any more.
    """

    def __init__(self, view: View, draft: Draft) -> None:
        self._view, self._draft = view, draft
        self._steps: list[Sequence[Action]] = []
        self._again_at: list[float] = []
        written_at = view.time("lastReconcileTime") or 0.0
        due_at = written_at + _WAITS_S[draft.urgency]
        # A former leader's clock may have been ahead of ours: what is urgent waits for no clock.
        is_due = draft.urgency is Urgency.AT_ONCE or due_at <= view.now or written_at > view.now
        self.is_written = draft.urgency is not Urgency.NONE and is_due
        if draft.urgency is not Urgency.NONE and not is_due:
            self._again_at.append(due_at)

    def add(self, step: Sequence[Action]) -> None:
        """Add a step, if there is anything in it."""
        if step:
            self._steps.append(step)
            self.is_written |= any(isinstance(one, Create) and one.kind in (POD, BATCH_JOB) for one in step)

    def write(self) -> None:
        """Write the status whatever is in it: what is deleted rests on what was read."""
        self.is_written = True

    def again(self, at: float | None) -> None:
        """Plan again at this time, if it is to come."""
        if at is not None and at > self._view.now:
            self._again_at.append(at)

    def plan(self) -> Plan:
        """Return the whole."""
        steps = [tuple(step) for step in self._steps]
        if self.is_written:
            metadata = mapping(self._view.observed.resource.get("metadata"))
            version = str(metadata.get("resourceVersion", ""))
            write = WriteStatus(self._draft.written(), version, "what has changed since")
            events: tuple[Action, ...] = tuple(Emit(*event) for event in self._draft.events)
            steps = [(write,), (*events, *steps[0]), *steps[1:]] if steps else [(write,), *([events] if events else [])]
        return Plan(tuple(steps), min(self._again_at, default=None))
