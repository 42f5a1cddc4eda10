"""Lists and watches."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from . import http1, partial, selector, statuses, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import Connection
    from .loop import Loop
    from .resources import Target
    from .store import Change, Object, Store

_BOOKMARK_S = 60.0
_DEFAULT_TIMEOUT_S = 3600.0
_PAGES_KEPT = 64


class Lister:
    """Answers lists, page by page where a limit is given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages: dict[str, tuple[int, list[Object]]] = {}

    def answer(self, target: Target, request: http1.Request) -> tuple[int, bytes]:
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
        if partial.wanted(request.headers.get("accept", "")):
            kind, version = partial.KIND, partial.API_VERSION
            items = b",".join(map(partial.encoded, things))
        else:
            items = b",".join(self._store.encoded(thing, version) for thing in things)
        head = json.dumps(
            {"kind": f"{kind}List", "apiVersion": version, "metadata": meta}, separators=(",", ":")
        ).encode()
        return 200, head[:-1] + b',"items":[' + items + b"]}\n"

    def forget_pages(self) -> None:
        """Every continue token is now too old."""
        self._pages.clear()


def selector_of(request: http1.Request, kind: str) -> Callable[[Object], bool]:
    """The request's label and field selectors together. Raises selector.SelectorError."""
    by_label = selector.labels(request.first("labelSelector"))
    by_field = selector.fields(request.first("fieldSelector"), kind)
    return lambda thing: by_label(thing) and by_field(thing)


class Watch:
    """One watch on one connection, until its time is over, the client leaves or a fault ends it."""

    def __init__(self, loop: Loop, store: Store, connection: Connection, target: Target) -> None:
        self._loop = loop
        self._store = store
        self._connection = connection
        self._target = target
        self._key = target.resource.key
        self._match: Callable[[Object], bool] = lambda _thing: True
        self._bookmarks = False
        self._as_table = False
        self._as_partial = False
        self._first = True
        self._timers = [loop.call_later(_DEFAULT_TIMEOUT_S, self.end)]
        self.stalled = False
        self.over = False
        self.on_over: Callable[[], None] = lambda: None
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self, request: http1.Request) -> None:
        """Answer the request. Raises selector.SelectorError before anything is sent."""
        self._match = selector_of(request, self._target.resource.kind)
        self._bookmarks = request.flag("allowWatchBookmarks")
        self._as_table = table.wanted(request.headers.get("accept", ""))
        self._as_partial = partial.wanted(request.headers.get("accept", ""))
        timeout_s = float(request.first("timeoutSeconds", "0") or 0)
        if timeout_s > 0:
            self._timers[0].cancel()
            self._timers[0] = self._loop.call_later(timeout_s, self.end)
        self._connection.ended = self._left
        version = request.first("resourceVersion")
        initial = request.flag("sendInitialEvents") or version in {"", "0"}
        if not initial and int(version) < self._store.oldest:
            message = f"too old resource version: {version} ({self._store.oldest})"
            self._connection.write(http1.chunked_head())
            self.fail(statuses.expired(message))
            return
        self._connection.write(http1.chunked_head())
        if initial:
            for thing in self._store.all(self._key, self._target.namespace or None):
                if self._match(thing):
                    self._send("ADDED", thing)
            if request.flag("sendInitialEvents"):
                self._bookmark(initial_end=True)
        else:
            for change in self._store.since(self._key, int(version)):
                self._tell(change)
        self._unsubscribe = self._store.subscribe(self._key, self._tell)
        if self._bookmarks:
            self._timers.append(self._loop.call_later(_BOOKMARK_S, self._regular_bookmark))

    def fail(self, status: statuses.Status) -> None:
        """End with an ERROR event."""
        self._event(json.dumps({"type": "ERROR", "object": status}, separators=(",", ":")).encode())
        self.end()

    def end(self) -> None:
        """End as the server does when the time is over."""
        if not self.over:
            self._connection.write(http1.chunk(b""))
            self._connection.close()
            self._left()

    def cut(self) -> None:
        """Lose the connection."""
        self._connection.close(reset=True)

    def raw(self, data: bytes) -> None:
        """Send these bytes as if they were an event."""
        self._connection.write(http1.chunk(data))

    def _tell(self, change: Change) -> None:
        if self.stalled or self._target.namespace not in {"", change.after["metadata"].get("namespace", "")}:
            return
        was = change.before is not None and self._match(change.before)
        now = change.kind != "DELETED" and self._match(change.after)
        if was and now:
            self._send("MODIFIED", change.after)
        elif now:
            self._send("ADDED", change.after)
        elif was:
            self._send("DELETED", change.after)

    def _send(self, kind: str, thing: Object) -> None:
        data = self._store.encoded(thing, self._target.api_version)
        if self._as_table:
            meta = {"resourceVersion": thing["metadata"]["resourceVersion"]}
            data = json.dumps(table.table(self._target.resource, [thing], meta, head=self._first)).encode()
            self._first = False
        elif self._as_partial:
            data = partial.encoded(thing)
        self._event(b'{"type":"%b","object":%b}' % (kind.encode(), data))

    def _event(self, data: bytes) -> None:
        self._connection.write(http1.chunk(data + b"\n"))

    def _regular_bookmark(self) -> None:
        if not self.over:
            self._bookmark(initial_end=False)
            self._timers.append(self._loop.call_later(_BOOKMARK_S, self._regular_bookmark))

    def _bookmark(self, *, initial_end: bool) -> None:
        meta: dict[str, Any] = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        thing = {"kind": self._target.resource.kind, "apiVersion": self._target.api_version, "metadata": meta}
        if thing["kind"] == "Pod":
            thing |= {"spec": {"containers": None}, "status": {}}
        self._event(json.dumps({"type": "BOOKMARK", "object": thing}, separators=(",", ":")).encode())

    def _left(self) -> None:
        if self.over:
            return
        self.over = True
        for timer in self._timers:
            timer.cancel()
        self._unsubscribe()
        self.on_over()
