"""Parts of JSON objects that may be missing or of a wrong type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object; an empty one for what is none."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return a list's objects; an empty list for what is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
