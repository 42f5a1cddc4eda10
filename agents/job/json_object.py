"""A Kubernetes object as JSON: its type, and access to parts that may be missing or have a wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]  # an object, or a part of one, that is only read
Body = dict[str, Any]  # one that is built, changed or sent


def mapping(value: object) -> Body:
    """Return the object, or an empty one if the value is none."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[Body]:
    """Return the objects in a list, or an empty list if the value is none."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def part(value: object, *path: str) -> Body:
    """Return the object at a path of keys, or an empty one if there is none."""
    for key in path:
        value = mapping(value).get(key)
    return mapping(value)
