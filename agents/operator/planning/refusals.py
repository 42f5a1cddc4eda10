"""Conditions of objects that can't be made: someone else has the name, or the API server would not take them.

What is tried again is said until it is there: neither an operator that starts anew nor one more try says it once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agents.job import conditions
from agents.job.conditions import Stated, Type
from agents.job.status import FAILED, Event
from agents.operator.kinds import BATCH_JOB, POD
from agents.operator.planning.view import is_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agents.job.status import Draft
    from agents.operator.actions import Create, CreateKeys
    from agents.operator.planning.view import View

    Creation = Create | CreateKeys

_NAMES_MAX = 8


def tell(view: View, draft: Draft, creates: Sequence[Creation]) -> None:
    """State what holds now. `creates`: what is to be made, and so is not there."""
    _tell_taken(view, draft, creates)
    faults = {key: words for key, words in view.observed.refused.items() if is_fault(words)}
    _tell_fault(draft, faults, creates)
    _tell_refused(
        view, draft, {key: view.observed.refused[key] for key in view.observed.refused.keys() - faults}, creates
    )


def _tell_taken(view: View, draft: Draft, creates: Sequence[Creation]) -> None:
    """Say it in kubeflow's words."""
    taken, reason = sorted(view.observed.taken), "ErrResourceExists"
    if not taken:
        _forget(draft, Type.RESOURCE_EXISTS, creates, _taken)
        return
    words = "; ".join(_taken(kind, name) for kind, name in taken[:_NAMES_MAX])
    draft.note(Stated(Type.RESOURCE_EXISTS, True, reason, words), Event("Warning", reason, words))


def _tell_fault(draft: Draft, faults: dict[tuple[str, str], str], creates: Sequence[Creation]) -> None:
    """A fault in a template: nothing but an edit of the job heals it."""
    if not faults:
        _forget(draft, Type.VALIDATION_ERROR, creates, lambda kind, name: f"{kind} {name}: ")
        return
    (kind, name), message = min(faults.items())
    reason, words = "ValidationError", f"{kind} {name}: {message}"
    draft.note(Stated(Type.VALIDATION_ERROR, True, reason, words), Event("Warning", reason, words))


def _tell_refused(view: View, draft: Draft, refused: dict[tuple[str, str], str], creates: Sequence[Creation]) -> None:
    """What may heal by itself: a quota, a policy, a class that is not there yet."""
    if not refused:
        _forget(draft, Type.CREATION_REFUSED, creates, lambda kind, name: f"{kind} {name}: ")
        return
    (kind, name), message = min(refused.items())
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    event = Event("Warning", FAILED, f"{_what(view, kind, name)} created failed: {message}")
    draft.note(Stated(Type.CREATION_REFUSED, True, FAILED, f"{kind} {name}: {message}{more}"), event)


def _forget(draft: Draft, said: Type, creates: Sequence[Creation], words: Callable[[str, str], str]) -> None:
    """Take a condition back unless what it names is still to be made."""
    found = conditions.find(draft.status["conditions"], said)
    message = "" if found is None else str(found.get("message"))
    if not any(words(one.kind.name, one.body["metadata"]["name"]) in message for one in creates):
        draft.forget([said])


def _taken(kind: str, name: str) -> str:
    return f'Resource "{name}" of Kind "{kind}" already exists and is not managed by MPIJob'


def _what(view: View, kind: str, name: str) -> str:
    """Return kubeflow's words for pods, and the kind for anything else."""
    if name == view.job.launcher_name and kind in (POD.name, BATCH_JOB.name):
        return "launcher pod"
    return "worker pod" if kind == POD.name else kind
