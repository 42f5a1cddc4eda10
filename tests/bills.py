"""What is in an image's bill of materials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def names(components: Iterable[dict[str, Any]], kind: str) -> dict[str, str]:
    """Return names and versions of the components whose package URL is of a kind, as `pypi`."""
    return {one["name"]: one["version"] for one in components if one["purl"].startswith(f"pkg:{kind}/")}
