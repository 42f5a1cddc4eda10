"""Writes jobs' Events in the background: it never blocks a plan, and drops Events that the API server rejects."""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections import OrderedDict

from agents.common.text import printable
from agents.job.json_object import Body
from agents.job.model import kind_of
from agents.job.status import Event, format_time
from agents.kube.api import Api
from agents.kube.errors import ApiError, NotFoundError
from agents.kube.kinds import EVENT
from agents.operator.metrics import Metrics

_LOG = logging.getLogger(__name__)
_COMPONENT = "mpi-job-controller"  # kubeflow's, which its users look for
_QUEUED_MAX = 10_000
_REMEMBERED_MAX = 4_096
_AS_ONE_S = 600.0  # the same again within this time is one event with a count
_MESSAGE_MAX = 1_024  # bytes; the API server's limit


class Recorder:
    """A queue, and a thread that writes what is in it."""

    def __init__(self, api: Api, metrics: Metrics, host: str = "") -> None:
        self._api, self._metrics, self._host = api, metrics, host
        self._queue: queue.Queue[Body | None] = queue.Queue(_QUEUED_MAX)
        self._known: OrderedDict[tuple[str, ...], tuple[str, int, float]] = OrderedDict()  # name, count, since
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is left, for so long at most."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def emit(self, resource: Body, event: Event) -> None:
        """Have an event of an MPIJob written."""
        try:
            self._queue.put_nowait(_body(resource, event, format_time(time.time()), self._host))
        except queue.Full:
            self._metrics.events_lost.inc()

    def _run(self) -> None:
        while (body := self._queue.get()) is not None:
            try:
                self._write(body)
            except ApiError as error:
                self._metrics.events_lost.inc()
                job = body["involvedObject"]
                _LOG.info("an event of job %s/%s was lost: %s", job["namespace"], job["name"], error)
            except Exception:  # noqa: BLE001 (a bug: otherwise all later events would be lost silently)
                self._metrics.events_lost.inc()
                _LOG.exception("an event can't be written")

    def _write(self, body: Body) -> None:
        job, at = body["involvedObject"], body["lastTimestamp"]
        namespace, key = job["namespace"], (job["uid"], body["type"], body["reason"], body["message"])
        name, count, since = self._known.pop(key, ("", 0, 0.0))
        if name and time.monotonic() - since < _AS_ONE_S:
            self._known[key] = name, count + 1, since
            try:
                self._api.patch(EVENT.path(namespace, name), {"count": count + 1, "lastTimestamp": at})
            except NotFoundError:
                del self._known[key]
            else:
                return
        name = f"{job['name'][:230]}.{uuid.uuid4().hex[:16]}"
        message = printable(body["message"].encode().decode(), _MESSAGE_MAX)  # not half a character: that is our fault
        made = {**body, "metadata": {"name": name, "namespace": namespace}, "message": message}
        self._api.create(EVENT, namespace, made)
        self._known[key] = name, 1, time.monotonic()
        if len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)


def _body(resource: Body, event: Event, at: str, host: str) -> Body:
    """Return an event without its name. Of a job it has names alone: large ones would not fit into the queue."""
    names = ("name", "namespace", "uid", "resourceVersion")
    job = {name: resource["metadata"].get(name, "") for name in names}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"apiVersion": resource.get("apiVersion", ""), "kind": kind_of(resource), **job},
        **event._asdict(),
        "source": {"component": _COMPONENT, "host": host},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
