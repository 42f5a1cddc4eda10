"""Waits for the workers' pods: the pod watch feeds the wait, outages of the API server are logged and bounded.

The wait ends when all workers are Ready, when its verdict says so, or when the API server keeps refusing us.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from agents.common import durations, pods
from agents.common.loop import Loop
from agents.common.pods import Pod
from delivery.exits import API_REFUSED, API_SETUP, DeliveryError
from delivery.hostfile import Changes, Roster, hosts_in
from delivery.settings import Settings, checked_namespace
from delivery.wait import Wait
from delivery.wait_loop import GATHER_S, Progress, WaitLoop, count
from rshagent.call.hosts import Entry
from rshagent.net.cluster import Cluster, ConfigError
from rshagent.net.connection import Lost
from rshagent.net.http import Head
from rshagent.net.requests import get
from rshagent.net.retry import Backoff
from rshagent.pods.podwatch import PodWatch, Trouble
from rshagent.stream.status import from_http

# training-operator's and mpi-operator v2beta1's, and mpi-operator v1's.
_JOB_LABELS = ("training.kubeflow.org/job-name", "mpi-job-name")
REFUSED_S = 5.0
UNAUTHORIZED_S = 60.0
POLL_S = 2.0  # between lists, without the right to watch
AGAIN_S = 30.0  # the same failure is logged again this often
# A watch reports failures only: silence for as long as a try takes (10 s to connect) means that it works again.
_TRY_S = 12.0


class ApiOutage:
    """Since when the API server has failed, and how. `now` is in seconds of any one monotonic clock."""

    def __init__(self) -> None:
        self._message: str | None = None
        self._began = 0.0
        self._logged_at = 0.0
        self._refused: tuple[int, float] | None = None
        self._until = 0.0

    def failed(self, message: str, retry_in_s: float, now: float, *, status: int = 0, is_final: bool = False) -> str:
        """Take a failed request; return the line to log, "" for none. Raises DeliveryError if it is final."""
        if not self.is_on(now):
            self._message, self._began = None, now
        self._until = now + retry_in_s + _TRY_S
        self._give_up_if_final(message, status, now, is_final=is_final)
        if message == self._message and now - self._logged_at < AGAIN_S:
            return ""
        lasted = f", for {durations.words(now - self._began)} now" if message == self._message else ""
        self._message, self._logged_at = message, now
        return f"{message}{lasted}; trying again"

    def answered(self, now: float) -> str:
        """Take an answer; return the line to log, "" if there was no outage."""
        if self._message is None:
            return ""
        lasted, self._message, self._refused = now - self._began, None, None
        return f"the API server answers again (after {durations.words(lasted)})"

    def is_on(self, now: float) -> bool:
        """Whether the last request that is known of failed."""
        return self._message is not None and now < self._until

    def message(self, now: float) -> str:
        """Return what to add to a line about the wait."""
        return f" · no answer from the API server for {durations.words(now - self._began)}" if self.is_on(now) else ""

    def _give_up_if_final(self, message: str, status: int, now: float, *, is_final: bool) -> None:
        if not is_final and status != 401:
            self._refused = None
            return
        if self._refused is None or self._refused[0] != status:
            self._refused = (status, now)
        if now - self._refused[1] >= (UNAUTHORIZED_S if status == 401 else REFUSED_S):
            raise DeliveryError(API_REFUSED if status == 403 else API_SETUP, message)


class PodWait:
    """Waits for the pods of the hostfile's workers. One use."""

    def __init__(self, workers: list[Entry], asked: Settings, progress: Progress) -> None:
        """Raises DeliveryError."""
        try:
            self._cluster = Cluster.load(asked.environ)
        except ConfigError as error:
            raise DeliveryError(API_SETUP, str(error)) from None
        self._namespace = checked_namespace(asked.namespace or self._cluster.namespace)
        hosts = hosts_in(self._namespace, workers)
        self._changes = Changes(asked.hostfile, self._namespace, asked.own_names, hosts)
        self._loop, self._settings, self._progress = Loop(), asked, progress
        self._roster = Roster(hosts)
        self._names = self._roster.display_names()
        self._wait = Wait(self._names.values(), asked.limits, self._loop.now())
        self._outage = ApiOutage()
        self.wait_loop = WaitLoop(self._loop, self._wait, progress, aside=self._outage.message)
        self._watch: PodWatch | None = None
        self._backoff = Backoff()

    def run(self) -> list[tuple[str, Sequence[str]]]:
        """Return the wanted pods and their addresses, all Ready, in the roster's order. Raises DeliveryError.

        A selector that was not given is derived from the labels of this pod.
        """
        if self._settings.selector is None and self._settings.own_name:
            self._ask_for_own_pod()
        else:
            self._start(self._settings.selector)
        self.wait_loop.run(self._changes.look, self._follow)
        assert self._watch is not None
        self._watch.close()
        found = (self._pod_of(host) for host in self._roster.hosts)
        return list({pod.name: pod.ips for pod in found if pod is not None}.items())

    def _ask_for_own_pod(self) -> None:
        path = f"/api/v1/namespaces/{quote(self._namespace)}/pods/{quote(self._settings.own_name)}"
        get(self._loop, self._cluster, path, self._take_own_pod)

    def _take_own_pod(self, head: Head | None, body: bytes, lost: Lost | None) -> None:
        """Start with what this pod's labels tell; ask again if that may help.

        A pod that may not be read, or isn't there under that name (hostNetwork, an own hostname), has no selector.
        If the error is permanent, the list of pods meets it too and reports it.
        """
        if lost is not None and not lost.is_final:
            message, wished_s = lost.reason, None
        elif head is not None and (head.status == 429 or head.status >= 500):
            failure = from_http(head.status, body, head.fields.get("retry-after"), what="reading this pod")
            message, wished_s = failure.message, failure.retry_after_s
        else:
            self._start(selector_in(body) if head is not None and head.status == 200 else None)
            return
        delay_s = self._backoff.delay_s(wished_s)
        self._loop.call_later(delay_s, self._ask_for_own_pod)
        self._log(self._outage.failed(message, delay_s, self._loop.now()))

    def _start(self, selector: str | None) -> None:
        labelled = f" with {selector}" if selector else ""
        self._progress.line(
            f"waiting for {count(len(self._names))}, among the pods of namespace {self._namespace}{labelled}"
        )
        self._watch = PodWatch(
            self._loop,
            self._cluster,
            self._namespace,
            selector=selector,
            wanted=self._roster.pod_names,
            on_change=self._change,
            on_trouble=self._take_failure,
            poll_s=POLL_S,
        )
        self._watch.start()

    def _follow(self, hosts: list[str]) -> None:
        """Wait for these hosts from now on."""
        self._roster = Roster(hosts)
        self._names = self._roster.display_names()
        self._wait.follow(self._names.values(), self._loop.now())
        if self._watch is not None:
            for pod in self._watch.pods.values():
                self._roster.touched(pod.name, pod)
            self._watch.relist(self._roster.pod_names)

    def _pod_of(self, host: str) -> Pod | None:
        return self._roster.pod_of(host, self._watch.pods) if self._watch is not None else None

    def _change(self, name: str | None) -> None:
        """Take a changed pod, or after a list all of them."""
        assert self._watch is not None
        now, known = self._loop.now(), self._watch.pods
        self._log(self._outage.answered(now))
        if name is None:
            for pod in known.values():
                self._roster.touched(pod.name, pod)
        hosts = self._roster.hosts if name is None else self._roster.touched(name, known.get(name))
        for host in hosts:
            self._wait.update(self._names[host], self._pod_of(host), now)
        self.wait_loop.within(0.0 if self._wait.ready else GATHER_S)

    def _take_failure(self, trouble: Trouble) -> None:
        """Take a failed list or watch. Raises DeliveryError at last."""
        line = self._outage.failed(
            trouble.message,
            trouble.retry_in_s,
            self._loop.now(),
            status=trouble.status_code,
            is_final=trouble.is_final,
        )
        self._log(line)
        self.wait_loop.within(GATHER_S)

    def _log(self, line: str) -> None:
        if line:
            self._progress.line(line)


def selector_in(body: bytes) -> str | None:
    """Return a label selector for the job's pods, as this pod's labels name the job; None if they don't."""
    try:
        labels = dict(pods.parse(json.loads(body)).labels)
    except (ValueError, AttributeError, RecursionError):
        return None
    return next((f"{key}={labels[key]}" for key in _JOB_LABELS if labels.get(key)), None)
