"""Lists and watches, without I/O."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from . import selector, statuses, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .request import Request
    from .resources import Target
    from .store import Change, Object, Store

_DEFAULT_TIMEOUT_S = 3600.0
_PAGES_KEPT = 64


class Lister:
    """Answers lists, page by page where a limit is given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: dict[str, tuple[int, list[Object]]] = {}

    def answer(self, target: Target, request: Request) -> tuple[int, bytes]:
        """HTTP code and body. Raises selector.SelectorError."""
        token = request.first("continue")
        if token:
            page = self._pages.pop(token, None)
            if page is None:
                gone = statuses.expired(
                    "The provided continue parameter is too old to display a consistent list result."
                )
                return 410, json.dumps(gone).encode()
            at, things = page
        else:
            match = selector_of(request, target.resource.kind)
            at = self._store.version
            things = [thing for thing in self._store.all(target.resource.key, target.namespace or None) if match(thing)]
        meta: dict[str, Any] = {"resourceVersion": str(at)}
        limit = int(request.first("limit", "0") or 0)
        if 0 < limit < len(things):
            meta["continue"] = secrets.token_urlsafe(12)
            meta["remainingItemCount"] = len(things) - limit
            self._pages[meta["continue"]] = (at, things[limit:])
            if len(self._pages) > _PAGES_KEPT:
                del self._pages[next(iter(self._pages))]
            things = things[:limit]
        if table.wanted(request.headers.get("accept", "")):
            return 200, json.dumps(table.table(target.resource, things, meta)).encode()
        kind, version = target.resource.kind, target.api_version
        if table.metadata_wanted(request.headers.get("accept", "")):
            version, kind = table.METADATA
            return 200, list_of(kind, version, meta, map(table.metadata_of, things))
        return 200, list_of(kind, version, meta, (self._store.encoded(thing, version) for thing in things))

    def forget_pages(self) -> None:
        """Every continue token is now too old."""
        self._pages.clear()


def list_of(kind: str, version: str, metadata: Object, items: Iterable[bytes]) -> bytes:
    """A list of objects, which are JSON already."""
    head = json.dumps({"kind": f"{kind}List", "apiVersion": version, "metadata": metadata}, separators=(",", ":"))
    return head[:-1].encode() + b',"items":[' + b",".join(items) + b"]}\n"


def selector_of(request: Request, kind: str) -> Callable[[Object], bool]:
    """The request's label and field selectors together. Raises selector.SelectorError."""
    by_label = selector.labels(request.first("labelSelector"))
    by_field = selector.fields(request.first("fieldSelector"), kind)
    return lambda thing: by_label(thing) and by_field(thing)


class Watch:
    """One watch, polled for its lines whenever its kind changes. Raises selector.SelectorError."""

    def __init__(self, store: Store, target: Target, request: Request) -> None:
        self._store = store
        self._target = target
        self._match = selector_of(request, target.resource.kind)
        self.key = target.resource.key
        self.timeout_s = float(request.first("timeoutSeconds", "0") or 0) or _DEFAULT_TIMEOUT_S
        self._as_table = table.wanted(request.headers.get("accept", ""))
        self._as_metadata = table.metadata_wanted(request.headers.get("accept", ""))
        self._has_head = False
        version = request.first("resourceVersion")
        self._sends_end = request.flag("sendInitialEvents")
        self._is_first = self._sends_end or version in {"", "0"}
        self._reached = self._store.version if self._is_first else int(version)
        self.is_expired = self._reached < store.oldest  # then its only line says so

    def poll(self) -> list[bytes]:
        """The lines of what has happened since."""
        if self.is_expired:
            message = f"too old resource version: {self._reached} ({self._store.oldest})"
            return [self.error(statuses.expired(message))]
        if self._is_first:
            self._is_first = False
            things = self._store.all(self.key, self._target.namespace or None)
            lines = [self._line("ADDED", thing) for thing in things if self._match(thing)]
            lines += [self._bookmark()] if self._sends_end else []
        else:
            changes = self._store.since(self.key, self._reached)
            lines = [line for change in changes if (line := self._told(change))]
        self._reached = self._store.version
        return lines

    def error(self, status: statuses.Status) -> bytes:
        """The line of an ERROR event, after which the watch ends."""
        return json.dumps({"type": "ERROR", "object": status}, separators=(",", ":")).encode() + b"\n"

    def _bookmark(self) -> bytes:
        """The line of the BOOKMARK event behind what is there; others, which no client can rely on, are not sent."""
        meta: dict[str, Any] = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        thing = {"kind": self._target.resource.kind, "apiVersion": self._target.api_version, "metadata": meta}
        if thing["kind"] == "Pod":
            thing |= {"spec": {"containers": None}, "status": {}}
        return json.dumps({"type": "BOOKMARK", "object": thing}, separators=(",", ":")).encode() + b"\n"

    def _told(self, change: Change) -> bytes:
        if self._target.namespace not in {"", change.after["metadata"].get("namespace", "")}:
            return b""
        was = change.before is not None and self._match(change.before)
        now = change.kind != "DELETED" and self._match(change.after)
        if not was and not now:
            return b""
        return self._line("DELETED" if not now else "MODIFIED" if was else "ADDED", change.after)

    def _line(self, kind: str, thing: Object) -> bytes:
        if self._as_table:
            meta = {"resourceVersion": thing["metadata"]["resourceVersion"]}
            shown = table.table(self._target.resource, [thing], meta, head=not self._has_head)
            self._has_head, data = True, json.dumps(shown).encode()
        elif self._as_metadata:
            data = table.metadata_of(thing)
        else:
            data = self._store.encoded(thing, self._target.api_version)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), data)
