"""Keeps a store up to date: lists, then watches, and lists again when the watch can't continue.

The `kubernetes` package's own informer is not used: it makes models, asks for no bookmarks, waits five seconds after an
error in a sleep that can't be stopped, logs a traceback for each, and its cache can't take in what we wrote ourselves.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from agents.job.json_object import Body, mapping
from agents.kube.api import Api, Stream
from agents.kube.errors import ApiError, GoneError, NotFoundError, RejectedError
from agents.operator.metrics import Metrics
from agents.operator.store import Store
from agents.operator.trim import trim

_LOG = logging.getLogger(__name__)
_WATCH_S = (300, 600)  # as client-go: the ends are spread
_FIRST_WAIT_S, _LAST_WAIT_S = 0.2, 15.0
LASTING_S = 5.0  # a watch that breaks off sooner, and has brought nothing, is one more failure


class Informer:
    """A thread that keeps the objects of one kind, in one namespace or all, in a store."""

    def __init__(
        self,
        api: Api,
        store: Store,
        metrics: Metrics,
        *,
        namespace: str | None = None,
        selector: str = "",
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_synced` is called after the first list."""
        self._api, self.store, self._metrics, self._on_synced = api, store, metrics, on_synced
        self.namespace, self._selector = namespace, selector
        self._path = store.kind.path(namespace)
        self.stopping = threading.Event()  # waits end when it is set
        self._watch: Stream | None = None
        self.version = ""  # "": a list is needed
        self._listed = ""  # the last list's
        self._failures = 0
        self.complaint = ""  # why the store can't be kept up to date now
        self.is_missing = False  # whether the API server has no such kind now
        self.is_forbidden = False  # whether we have no right to it now
        self.synced = threading.Event()
        name = f"watch-{store.kind.plural}" + (f"-{namespace}" if namespace else "")
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, or is yet to be started: a probe may come in between."""
        return self._thread.ident is None or self._thread.is_alive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; the thread ends soon."""
        self.stopping.set()
        watch = self._watch
        if watch is not None:
            watch.stop()

    def _run(self) -> None:
        while not self.stopping.is_set():
            self.turn()

    def turn(self) -> None:
        """List if necessary, and follow one watch to its end."""
        try:
            if not self.version:
                self._list()
            self._follow()
        except GoneError as error:
            self._restarts("gone")
            # Not at full speed where no list can be had, or not even the list's own version is watched.
            if self.version in {"", self._listed}:
                self._wait(error)
            self.version = ""
        except ApiError as error:
            if not self.stopping.is_set():
                self._restarts("refused" if isinstance(error, RejectedError) else "error")
                self._wait(error)

    def _list(self) -> None:
        """List the latest state, not the server's cache, which may be older than what was seen before."""
        bodies: list[Body] = []
        token = ""
        while True:
            page = self._api.list(
                self._path,
                # Whole, they would not fit into the operator's memory.
                keep=lambda body: trim(self.store.kind, mapping(body)),
                token=token,
                partial=self.store.kind.is_secret,
                labelSelector=self._selector,
            )
            bodies += page.get("items") or ()
            token = page["metadata"].get("continue", "")
            if not token:
                break
        version = page["metadata"]["resourceVersion"]
        self.store.replace(bodies, version, self.namespace)
        self.version = self._listed = version
        self._healthy()
        if not self.synced.is_set():
            self.synced.set()
            self._on_synced()

    def _follow(self) -> None:
        timeout_s = random.randint(*_WATCH_S)  # noqa: S311 (no secret)
        began = time.monotonic()
        watch = self._api.watch(
            self._path,
            version=self.version,
            timeout_s=timeout_s,
            partial=self.store.kind.is_secret,
            allowWatchBookmarks="true",
            labelSelector=self._selector,
        )
        self._watch = watch
        if self.stopping.is_set():
            watch.stop()
            return
        self._healthy()
        try:
            for event in watch:
                self._take(event)
                del event  # it may be large, and the next one may come in hours
                self._failures = 0
        finally:
            if time.monotonic() - began > LASTING_S:
                self._failures = 0
        self._restarts("ended")
        if time.monotonic() - began < _FIRST_WAIT_S:  # a server that ends watches at once is not asked without a pause
            self.stopping.wait(_FIRST_WAIT_S)

    def _take(self, event: Body) -> None:
        kind, body = event.get("type"), event.get("object") or {}
        self.store.event(str(kind), body, self.namespace)
        self.version = body["metadata"]["resourceVersion"]

    def _healthy(self) -> None:
        if self.complaint:
            _LOG.info("watching %s again", self.store.kind.resource)
        self.complaint, self.is_missing, self.is_forbidden = "", False, False

    def _wait(self, error: ApiError) -> None:
        """Log once why the store is stale, and wait with exponential backoff."""
        reason, self.is_missing = self._reason(error), isinstance(error, NotFoundError)
        self.is_forbidden = error.code == 403
        if reason != self.complaint:
            self.complaint = reason
            _LOG.warning("%s can't be watched: %s", self.store.kind.resource, reason)
        wait_s = min(_FIRST_WAIT_S * 2.0 ** min(self._failures, 16), _LAST_WAIT_S) * (0.5 + random.random() / 2)  # noqa: S311
        self._failures += 1
        self.stopping.wait(max(wait_s, error.retry_after_s or 0.0))

    def _reason(self, error: ApiError) -> str:
        kind, where = self.store.kind, f"namespace {self.namespace}" if self.namespace else "all namespaces"
        if isinstance(error, RejectedError) and error.code == 403:
            return f"the operator's role does not allow list and watch of {kind.resource} in {where}"
        if isinstance(error, NotFoundError):
            return f"the API server has no {kind.plural} in {kind.api_version}: is their CRD installed?"
        return str(error)

    def _restarts(self, why: str) -> None:
        if not self.stopping.is_set():
            self._metrics.watch_restarts.labels(self.store.kind.plural, why).inc()
