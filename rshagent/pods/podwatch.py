"""One list and one watch over a namespace's pods, for as long as its owner wants.

The list comes in pages, and of each pod only what `pods.Pod` holds is kept: 1,000 whole pods are 40 MiB, these are 2.
A broken watch continues from its last version; one that is too old (410) begins with a new list. Who may list and not
watch (403) gets a list now and then.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from agents.common import pods
from agents.common.loop import NO_TIMER, Loop
from agents.common.pods import Pod
from agents.common.text import one_line
from rshagent.net.cluster import Cluster
from rshagent.net.connection import Lost
from rshagent.net.http import Head
from rshagent.net.requests import Get, TooLong, get
from rshagent.net.retry import Backoff
from rshagent.stream import status
from rshagent.stream.streams import quote

_PAGE = 100
_LIST_SHARE = 9  # without the right to watch: how much longer than for the last list it waits for the next one
# The server ends a watch after this, so that one that silently died is noticed.
_WATCH_S = 240
_GRACE_S = 30
_SHORT_S = 1.0  # a watch that ends sooner did not reach its time limit
_LINE_MAX = 4 * 1024 * 1024  # a pod has up to 1.5 MiB (etcd's limit)
_REFUSAL_MAX = 64 * 1024
_FORBIDDEN = (
    "listing the pods is forbidden: {}. A Role rule that grants it: "
    '{{apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"]}}'
)
_JOB_UID = "mpi-agents/job-uid="  # the operator's label


class Trouble(NamedTuple):
    """The API server can't be listed or watched now; `status_code` is 0 where it can't be reached at all."""

    message: str
    status_code: int
    retry_in_s: float
    is_final: bool


class PodWatch:
    """`pods` by name, kept up to date.

    `on_change(name)` is called after each change, with None after each complete list; `on_trouble(trouble)` before
    each wait for another try. `wanted` names the pods to keep (None: all); it may grow or shrink between calls of
    `relist`. Without the right to watch, lists are `poll_s` seconds apart.

    Whoever may make pods gives them any label. So where the selector names a job by the operator's label, a pod that
    this job doesn't control counts as one that is not there.
    """

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        namespace: str,
        *,
        selector: str | None = None,
        wanted: frozenset[str] | None = None,
        on_change: Callable[[str | None], None],
        on_trouble: Callable[[Trouble], None],
        poll_s: float = 10.0,
    ) -> None:
        self._loop, self._cluster, self._wanted, self._poll_s = loop, cluster, wanted, poll_s
        self._on_change, self._on_trouble = on_change, on_trouble
        labels = f"&labelSelector={quote(selector.encode())}" if selector else ""
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._labels = labels
        parts = (part.partition(_JOB_UID) for part in (selector or "").split(","))
        self._owner = next((uid for before, label, uid in parts if label and not before), "")
        self._backoff = Backoff()
        self._request: Get | None = None
        self._timer = self._watchdog = NO_TIMER
        self._began_at = self._list_began_at = 0.0
        self._is_listed = False  # by a list that no watch has followed
        self._is_answered = False
        self._version = self._token = ""
        self._page = _PAGE
        self._listed: dict[str, Pod] = {}
        self._lines = bytearray()
        self._refusal: tuple[Head, bytearray] | None = None
        self.pods: dict[str, Pod] = {}

    def start(self) -> None:
        """List, then watch."""
        self._listed = {}
        self._list_began_at = self._loop.now()
        self._list("")

    def relist(self, wanted: frozenset[str] | None) -> None:
        """List and watch again, for another set of names."""
        self.close()
        self._wanted = wanted
        self.start()

    def close(self) -> None:
        """Stop; nothing is called after this."""
        self._timer.cancel()
        self._watchdog.cancel()
        if self._request is not None:
            self._request.close()
            self._request = None

    def _list(self, token: str) -> None:
        self._token = token
        more = f"&continue={quote(token.encode())}" if token else ""
        self._request = get(
            self._loop, self._cluster, f"{self._path}?limit={self._page}{self._labels}{more}", self._take_page
        )

    def _take_page(self, head: Head | None, body: bytes, lost: Lost | None) -> None:
        if isinstance(lost, TooLong) and self._page > 1:  # of large pods there are fewer to a page
            self._page = max(self._page // 4, 1)
            self._list(self._token)
            return
        if lost is not None or head is None:
            self._lost(lost)
            return
        if head.status != 200:
            self._refused(head, body)
            return
        try:
            page = json.loads(body)
            token = self._take_items(page)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._wait("the list of pods can't be read", 200)
            return
        if token:
            self._list(token)
            return
        self.pods, self._listed, self._is_listed = self._listed, {}, True
        self._watch()
        self._on_change(None)

    def _take_items(self, page: dict[str, object]) -> str:
        """Keep a page's pods; return the token of the next page."""
        items, metadata = page["items"] or [], page["metadata"]  # a list of none may be null
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise TypeError
        for item in items:
            pod = pods.parse(item)
            if self._wants(pod.name) and self._owns(pod):
                self._listed[pod.name] = pod
        self._version = str(metadata["resourceVersion"])
        return str(metadata.get("continue") or "")

    def _watch(self) -> None:
        self._lines.clear()
        self._refusal, self._is_answered = None, False
        self._began_at = self._loop.now()
        query = (
            f"watch=true&allowWatchBookmarks=true&timeoutSeconds={_WATCH_S}"
            f"&resourceVersion={quote(self._version.encode())}{self._labels}"
        )
        self._request = Get(
            self._loop,
            self._cluster,
            f"{self._path}?{query}",
            on_head=self._take_head,
            on_body=self.take_body,
            on_end=self._end_watch,
        )
        self._watchdog = self._loop.call_later(_WATCH_S + _GRACE_S, self._give_up)

    def _take_head(self, head: Head) -> None:
        self._is_answered = head.status == 200
        self._is_listed = self._is_listed and not self._is_answered
        if not self._is_answered:
            self._refusal = (head, bytearray())

    def take_body(self, data: bytes) -> None:
        """Take some bytes of the watch: events, a line each."""
        if self._refusal is not None:
            self._refusal[1].extend(data[: _REFUSAL_MAX - len(self._refusal[1])])
            return
        self._lines += data
        request = self._request
        while (end := self._lines.find(b"\n")) >= 0:
            line = bytes(self._lines[:end])
            del self._lines[: end + 1]
            if line.strip() and not self._take_event(line):
                return
            if self._request is not request:  # closed, or restarted, by `on_change`
                return
        if len(self._lines) > _LINE_MAX:
            self._restart("an event of the watch is larger than 4 MiB")

    def _take_event(self, line: bytes) -> bool:
        """Apply one event; return False where it ended the watch."""
        try:
            event = json.loads(line)
            kind, raw = event["type"], event["object"]
            if kind == "ERROR":
                self._restart(f"the watch ended: {one_line(str(raw.get('message')))}", relist=True)
                return False
            self._version = str(raw["metadata"]["resourceVersion"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._restart("an event of the watch can't be read", relist=True)
            return False
        self._backoff = Backoff()
        if kind != "BOOKMARK":
            self._apply(kind, pods.parse(raw))
        return True

    def _apply(self, kind: str, pod: Pod) -> None:
        if not self._wants(pod.name):
            return
        if kind == "DELETED" or not self._owns(pod):
            self.pods.pop(pod.name, None)
        else:
            self.pods[pod.name] = pod
        self._on_change(pod.name)

    def _wants(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted

    def _owns(self, pod: Pod) -> bool:
        return not self._owner or pod.owner == self._owner

    def _end_watch(self, lost: Lost | None) -> None:
        self._watchdog.cancel()
        is_short = self._loop.now() - self._began_at < _SHORT_S
        if self._is_answered and not is_short:  # but not if it only took long to fail
            self._backoff = Backoff()
        if self._refusal is not None and self._refusal[0].status == 403 and self._is_listed:
            # Listing is allowed, watching is not. In a large namespace a list costs the API server a lot.
            took_s = self._began_at - self._list_began_at
            self._timer = self._loop.call_later(max(self._poll_s, _LIST_SHARE * took_s), self.start)
        elif self._refusal is not None:
            head, body = self._refusal
            self._refused(head, bytes(body), relist=head.status in (403, 410))
        elif lost is not None:
            self._lost(lost, relist=False)
        elif is_short:
            self._wait("the watch ended immediately after its start", 0, relist=False)
        else:  # the server's own time limit
            self._watch()

    def _give_up(self) -> None:
        self._restart("the watch fell silent")

    def _restart(self, reason: str, *, relist: bool = False) -> None:
        self.close()
        self._wait(reason, 0, relist=relist)

    def _lost(self, lost: Lost | None, *, relist: bool = True) -> None:
        is_final = lost is not None and lost.is_final
        if is_final:
            self._cluster.renew()
        self._wait(lost.reason if lost else "no answer", 0, relist=relist, is_final=is_final)

    def _refused(self, head: Head, body: bytes, *, relist: bool = True) -> None:
        if head.status == 401:
            self._cluster.renew()
        failure = status.from_http(
            head.status, body, head.fields.get("retry-after"), what="listing the pods", forbidden=_FORBIDDEN
        )
        self._wait(
            failure.message, head.status, relist=relist, wished_s=failure.retry_after_s, is_final=head.status == 403
        )

    def _wait(
        self, message: str, code: int, *, relist: bool = True, wished_s: float | None = None, is_final: bool = False
    ) -> None:
        delay_s = self._backoff.delay_s(wished_s)
        again = self.start if relist or not self._version else self._watch
        self._timer = self._loop.call_later(delay_s, again)
        self._on_trouble(Trouble(message, code, delay_s, is_final=is_final))
