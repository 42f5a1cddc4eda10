"""Which label the job's pods share, as this pod's own labels tell: it keeps the watch to the job's pods.

`training.kubeflow.org/job-name` is training-operator's and mpi-operator v2beta1's, `mpi-job-name` mpi-operator v1's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agents.common import pods
from rshagent.net.requests import get
from rshagent.net.retry import Backoff
from rshagent.stream.status import from_http

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents.common.loop import Loop
    from rshagent.net.cluster import Cluster
    from rshagent.net.connection import Lost
    from rshagent.net.http import Head

_JOB_LABELS = ("training.kubeflow.org/job-name", "mpi-job-name")


def selector_of(labels: dict[str, str]) -> str | None:
    """Return a label selector for the job's pods, None if the labels name no job."""
    return next((f"{key}={labels[key]}" for key in _JOB_LABELS if labels.get(key)), None)


class OwnSelector:
    """Asks for this pod once; `on_done(selector or None)`.

    A pod that may not be read, or isn't there under that name (hostNetwork, an own hostname), has no selector. What may
    pass is tried again, after `on_trouble(words, seconds)`.
    """

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        path: str,
        *,
        on_done: Callable[[str | None], None],
        on_trouble: Callable[[str, float], None],
    ) -> None:
        self._loop, self._cluster, self._path = loop, cluster, path
        self._on_done, self._on_trouble = on_done, on_trouble
        self._backoff = Backoff()

    def start(self) -> None:
        """Ask, or ask again."""
        get(self._loop, self._cluster, self._path, self._take)

    def _take(self, head: Head | None, body: bytes, lost: Lost | None) -> None:
        if lost is not None and not lost.is_final:
            self._again(lost.reason, None)
        elif head is not None and (head.status == 429 or head.status >= 500):
            failure = from_http(head.status, body, head.fields.get("retry-after"), what="reading this pod")
            self._again(failure.message, failure.retry_after_s)
        elif head is not None and head.status == 200:
            self._on_done(_selector_in(body))
        else:
            # Refused or not there. Whatever is wrong for good, the list of pods will meet it and say so.
            self._on_done(None)

    def _again(self, words: str, wished_s: float | None) -> None:
        delay_s = self._backoff.delay_s(wished_s)
        self._loop.call_later(delay_s, self.start)
        self._on_trouble(words, delay_s)


def _selector_in(body: bytes) -> str | None:
    try:
        return selector_of(dict(pods.parse(json.loads(body)).labels))
    except (ValueError, AttributeError, RecursionError):
        return None
