"""A request as the object store reads it: method, path, query, headers, body. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping


class Request:
    """One request. Header names are looked up in lower case."""

    __slots__ = ("body", "headers", "method", "path", "query")

    def __init__(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        path, _, query = target.partition("?")
        self.method = method
        self.path = unquote(path)
        self.query = parse_qs(query, keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
        self.headers = headers
        self.body = body

    def first(self, name: str, default: str = "") -> str:
        """A query parameter's first value."""
        return self.query.get(name, (default,))[0]

    def flag(self, name: str) -> bool:
        """A query parameter as Go's strconv.ParseBool has it; anything else is false."""
        return self.first(name) in {"1", "t", "T", "true", "TRUE", "True"}
