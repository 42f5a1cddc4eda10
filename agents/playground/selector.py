"""Label and field selectors, as the API's query parameters spell them. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

Matcher = Callable[[Mapping[str, Any]], bool]


class SelectorError(ValueError):
    """The selector can't be read: the API answers 400."""


_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*(\S*)$")
_NAME = re.compile(r"^!?\s*[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")


@functools.lru_cache(256)
def labels(selector: str) -> Matcher:
    """Whether an object's labels match: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, by commas."""
    wanted = [_requirement(part) for part in _parts(selector)]
    return lambda thing: all(match(thing["metadata"].get("labels") or {}) for match in wanted)


def _parts(selector: str) -> list[str]:
    if not selector:
        return []
    parts = re.split(r",(?![^()]*\))", selector)
    return [part.strip() for part in parts if part.strip()]


def _requirement(part: str) -> Matcher:
    if found := _SET.match(part):
        name, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda have: have.get(name) in values
        return lambda have: have.get(name) not in values
    if found := _EQUAL.match(part):
        name, operator, value = found.groups()
        if operator == "!=":
            return lambda have: have.get(name) != value
        return lambda have: have.get(name) == value
    if not _NAME.match(part):
        raise SelectorError(f"unable to parse requirement: {part!r}")
    if part.startswith("!"):
        name = part[1:].strip()
        return lambda have: name not in have
    return lambda have: part in have


_METADATA = ("metadata.name", "metadata.namespace")
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS = {  # by kind, as the API server has them
    "Pod": frozenset({*_METADATA, "spec.nodeName", "spec.restartPolicy", "status.phase", "status.podIP"}),
    "Event": frozenset({*_METADATA, "reason", "type", "source", *(f"involvedObject.{one}" for one in _ABOUT)}),
    "Secret": frozenset({*_METADATA, "type"}),
    "Job": frozenset({*_METADATA, "status.successful"}),
}


def _value(thing: Mapping[str, Any], path: str) -> str:
    value: Any = thing
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


@functools.lru_cache(256)
def fields(selector: str, kind: str = "Pod") -> Matcher:
    """Whether an object's fields match: `metadata.name=x`, `status.phase!=Running` and so on, by commas."""
    known = _FIELDS.get(kind, frozenset(_METADATA))
    wanted: list[tuple[str, str, bool]] = []
    for part in _parts(selector):
        found = _EQUAL.match(part)
        if not found or found[1] not in known:
            raise SelectorError(f"field label not supported: {part}")
        wanted.append((found[1], found[3], found[2] != "!="))
    return lambda thing: all((_value(thing, path) == value) is is_equal for path, value, is_equal in wanted)


def name_in(selector: str) -> str | None:
    """The one name that a field selector asks for: RBAC's resourceNames then apply to list and watch."""
    for part in _parts(selector):
        found = _EQUAL.match(part)
        if found and found.group(1) == "metadata.name" and found.group(2) != "!=":
            return found.group(3)
    return None
