"""A T9k job that was submitted to our operator: what its status says, in T9k's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.kube import DEADLINE_S
from tests.cluster.operator.submitted import Submitted

if TYPE_CHECKING:
    from tests.cluster.kube import Object

ENDS = {"Succeeded", "Failed"}
_END_S = 360.0


class Running(Submitted):
    """A T9k job in a namespace."""

    def until_phase(self, *phases: str, deadline_s: float = DEADLINE_S) -> Object:
        """Wait until its phase is one of these; return the status. Raises WaitError."""
        words = f"is {' or '.join(phases)}"
        return self.until(lambda status: status.get("phase") in phases, words, deadline_s)

    def story(self) -> list[str]:
        """Wait until it has ended; the phases it was seen in. Raises WaitError."""
        seen: list[str] = []

        def note(status: Object) -> bool:
            phase = str(status.get("phase") or "")
            if phase and seen[-1:] != [phase]:
                seen.append(phase)
            return phase in ENDS

        self.until(note, "has ended", _END_S)
        return seen

    def end(self) -> str:
        """Wait until it has ended; its phase. Raises WaitError."""
        return str(self.until_phase(*ENDS, deadline_s=_END_S)["phase"])

    def task(self, role: str) -> Object:
        """What its status says of a role's pods."""
        return next(dict(one) for one in self.status()["tasks"] if one["type"] == role)
