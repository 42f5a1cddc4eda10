"""YAML documents as JSON has them: without dates, keys that are numbers, and values in more than one place. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

MOST = 16 << 20  # characters; no API server takes an object of more than 3 MiB


def plain(documents: Iterable[object]) -> list[Any]:
    """Return the documents that say something; those of a List, as kubectl prints several objects, one by one.

    Raises TypeError, ValueError or RecursionError for what JSON can't express: a key that is a list, what contains
    itself, is nested too deeply, or is by its aliases many times as large as its text.
    """
    pieces, size = [], 0
    for piece in json.JSONEncoder(default=str).iterencode([one for one in documents if one]):
        pieces.append(piece)
        size += len(piece)
        if size > MOST:
            raise ValueError("its aliases make it larger than any API server would take")
    found = []
    for one in json.loads("".join(pieces)):
        items = one.get("items") if isinstance(one, dict) and one.get("kind") == "List" else None
        found += items if isinstance(items, list) else [one]
    return found
