"""JSON of the API server, which keeps an MPIJob nested 10,000 deep: such a one must not keep others from being read.

Python's own decoder gives up at about a thousand, and with it a whole list. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

DEEPEST = 256  # of what is kept where something is nested too deeply; `agents.job` refuses templates at less

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def decode(data: bytes) -> Any:
    """Return what the JSON says; if something in it is nested too deeply, null from there on. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError:
        return json.loads(_without_depths(data))


def _without_depths(data: bytes) -> bytes:
    parts, depth, kept_to = [], 0, 0
    for token in _TOKEN.finditer(data):
        if token[0] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                parts += [data[kept_to : token.start()], b"null"]
        elif token[0] in b"]}":
            if depth == DEEPEST + 1:
                kept_to = token.end()
            depth -= 1
    return b"".join((*parts, data[kept_to:]))
