"""What was edited in a job's spec since it was made: which fields, by whom and when. Pure.

- managedFields: which manager (kubectl-edit, kueue, …) set which fields, and when last. The one that made the job has
  all that it made, so that its later edits can't be told apart
  (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management)
- what kubectl applied last, an annotation: what the fields were. Fields that are not in it may be defaults
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from agents.common.text import printable
from agents.job.json_object import Object, mapping, mappings, part
from agents.job.model import LAST_APPLIED
from agents.job.status import seconds

_APPLIED_MAX = 1 << 20  # characters
_VALUE_MAX, _PATH_MAX = 60, 200  # bytes
_HIDDEN = ".env"  # values of variables may be secrets


@dataclass(frozen=True, slots=True)
class Edit:
    """A field that was edited. `by` and `at`, epoch seconds, may be unknown; so may `was` and `now`, which are JSON."""

    path: str
    by: str = ""
    at: float | None = None
    was: str = ""
    now: str = ""


def edits(resource: Object) -> list[Edit]:
    """Return what was edited in a job's spec since it was made, as far as it is known."""
    managed = [*_managed(resource)]
    found = []
    for one in _changed(_applied(resource), resource.get("spec"), "spec"):
        same = [other for other in managed if other.path != "spec" and one.path.startswith(other.path)]
        by = max(same, key=lambda other: len(other.path), default=Edit(""))
        found.append(replace(one, by=by.by, at=by.at))
    known = [one.path for one in found]
    found += [one for one in managed if not any(path.startswith(one.path) for path in known)]
    return sorted(found, key=lambda one: (one.at or 0.0, one.path))


def _managed(resource: Object) -> Iterator[Edit]:
    metadata = part(resource, "metadata")
    created = seconds(metadata.get("creationTimestamp")) or 0.0
    for entry in mappings(metadata.get("managedFields")):
        at, spec = seconds(entry.get("time")), part(entry, "fieldsV1", "f:spec")
        if entry.get("subresource") or at is None or at <= created or not spec:
            continue
        manager = printable(str(entry.get("manager") or ""), _VALUE_MAX)
        has_all = "." in spec or entry.get("operation") == "Apply"
        for path in ["spec"] if has_all else _leaves(spec, "spec"):
            yield Edit(printable(path, _PATH_MAX), manager, at)


def _leaves(fields: Object, path: str) -> Iterator[str]:
    """Return the paths of a fieldsV1's leaves: `f:` begins a field's name, `k:` an element's keys."""
    below = {key: value for key, value in fields.items() if key != "."}
    if not below:
        yield path
    for key, value in below.items():
        kind, _, name = key.partition(":")
        yield from _leaves(mapping(value), f"{path}.{name}" if kind == "f" else f"{path}[{name}]")


def _applied(resource: Object) -> object:
    text = part(resource, "metadata", "annotations").get(LAST_APPLIED)
    try:
        return mapping(json.loads(text)).get("spec") if isinstance(text, str) and len(text) <= _APPLIED_MAX else None
    except (ValueError, RecursionError):
        return None


def _changed(old: object, new: object, path: str) -> Iterator[Edit]:
    """Return where something that is in `old` is another thing in `new`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            yield from _changed(value, new.get(key), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, value in enumerate(old):
            yield from _changed(value, new[index], f"{path}[{index}]")
    elif old is not None and old != new:
        is_hidden = _HIDDEN in path
        yield Edit(
            printable(path, _PATH_MAX), was=_value(old, is_hidden=is_hidden), now=_value(new, is_hidden=is_hidden)
        )


def _value(value: object, *, is_hidden: bool) -> str:
    if value is None:
        return "removed"
    return "…" if is_hidden or isinstance(value, dict | list) else printable(json.dumps(value), _VALUE_MAX)
