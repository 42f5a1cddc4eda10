"""Waits for the workers' pods: the pod watch feeds the wait, outages of the API server are told and bounded.

The wait ends when all workers are Ready, when its verdict says so, or when the API server keeps refusing us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from agents.common import durations
from agents.common.loop import Loop
from delivery.exits import API_REFUSED, API_SETUP, DeliveryError
from delivery.hostfile import Changes, Roster, hosts_in
from delivery.own_selector import OwnSelector
from delivery.settings import checked_namespace
from delivery.wait import Wait
from delivery.wait_loop import GATHER_S, WaitLoop, count
from rshagent.net.cluster import Cluster, ConfigError
from rshagent.pods.podwatch import PodWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agents.common.pods import Pod
    from delivery.settings import Settings
    from delivery.wait_loop import Progress
    from rshagent.call.hosts import Entry
    from rshagent.pods.podwatch import Trouble

REFUSED_S = 5.0
UNAUTHORIZED_S = 60.0
AGAIN_S = 30.0  # the same failure is logged again this often
# A watch reports failures only: silence for as long as a try takes (10 s to connect) means that it works again.
_TRY_S = 12.0


class ApiOutage:
    """Since when the API server has failed, and how. `now` is in seconds of any one monotonic clock."""

    def __init__(self) -> None:
        self._message: str | None = None
        self._began = 0.0
        self._told_at = 0.0
        self._refused: tuple[int, float] | None = None
        self._until = 0.0

    def failed(self, message: str, retry_in_s: float, now: float, *, status: int = 0, is_final: bool = False) -> str:
        """Take a failed request; return the line to log, "" for none. Raises DeliveryError if it is final."""
        if not self.is_on(now):
            self._message, self._began = None, now
        self._until = now + retry_in_s + _TRY_S
        self._give_up_if_final(message, status, now, is_final=is_final)
        if message == self._message and now - self._told_at < AGAIN_S:
            return ""
        lasted = f", for {durations.words(now - self._began)} now" if message == self._message else ""
        self._message, self._told_at = message, now
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


_LOOK_S = 1.0  # a look at the hostfile is one stat(2)


def pod_wait(workers: list[Entry], asked: Settings, progress: Progress) -> PodWait:
    """Return the wait for these workers. Raises DeliveryError."""
    try:
        cluster = Cluster.load(asked.environ)
    except ConfigError as error:
        raise DeliveryError(API_SETUP, str(error)) from None
    namespace = checked_namespace(asked.namespace or cluster.namespace)
    hosts = hosts_in(namespace, workers)
    changes = Changes(asked.hostfile, namespace, asked.own_names, hosts)
    return PodWait(Loop(), cluster, namespace, hosts=hosts, changed=changes.look, settings=asked, progress=progress)


class PodWait:
    """Waits for the pods of some hosts. One use.

    `changed()` returns the hosts that are wanted from now on, None while they are the same: an operator that changes
    the number of workers changes the hostfile.
    """

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        namespace: str,
        *,
        hosts: list[str],
        changed: Callable[[], list[str] | None],
        settings: Settings,
        progress: Progress,
    ) -> None:
        self._loop, self._cluster, self._namespace = loop, cluster, namespace
        self._settings, self._progress = settings, progress
        self._roster = Roster(hosts)
        self._names = self._roster.display_names()
        self._wait = Wait(self._names.values(), settings.limits, loop.now())
        self._wait_loop = WaitLoop(loop, self._wait, progress)
        self._changed = changed
        self._watch: PodWatch | None = None
        self._outage = ApiOutage()
        self._wait_loop.aside = self._outage.message

    @property
    def standing(self) -> str:
        """One line that says where the wait is."""
        return self._wait_loop.standing

    def run(self) -> list[tuple[str, Sequence[str]]]:
        """Return the wanted pods and their addresses, all Ready, in the roster's order. Raises DeliveryError.

        A selector that was not given is derived from the labels of this pod.
        """
        selector, own_name = self._settings.selector, self._settings.own_name
        if selector is None and own_name:
            path = f"/api/v1/namespaces/{quote(self._namespace)}/pods/{quote(own_name)}"
            asked = OwnSelector(self._loop, self._cluster, path, on_done=self._start, on_trouble=self._meet_lost)
            asked.start()
        else:
            self._start(selector)
        self._wait_loop.within(GATHER_S)
        self._loop.call_later(_LOOK_S, self._look)
        self._loop.run()
        assert self._watch is not None
        self._watch.close()
        self._progress.line(self.standing)
        pods = (self._pod_of(host) for host in self._roster.hosts)
        return list({pod.name: pod.ips for pod in pods if pod is not None}.items())

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
            on_trouble=self._meet,
        )
        self._watch.start()

    def _look(self) -> None:
        """Take a hostfile that has changed."""
        self._loop.call_later(_LOOK_S, self._look)
        hosts = self._changed()
        if hosts is None:
            return
        self._roster = Roster(hosts)
        self._names = self._roster.display_names()
        self._wait.follow(self._names.values(), self._loop.now())
        for pod in self._watch.pods.values() if self._watch is not None else ():
            self._roster.touched(pod.name, pod)
        self._progress.line(f"the hostfile has changed: waiting for {count(len(self._names))}")
        if self._watch is not None:
            self._watch.relist(self._roster.pod_names)
        self._wait_loop.within(GATHER_S)

    def _pod_of(self, host: str) -> Pod | None:
        return self._roster.pod_of(host, self._watch.pods) if self._watch is not None else None

    def _change(self, name: str | None) -> None:
        """Take a changed pod, or after a list all of them."""
        assert self._watch is not None
        now, pods = self._loop.now(), self._watch.pods
        self._tell(self._outage.answered(now))
        if name is None:
            for pod in pods.values():
                self._roster.touched(pod.name, pod)
        hosts = self._roster.hosts if name is None else self._roster.touched(name, pods.get(name))
        for host in hosts:
            self._wait.update(self._names[host], self._pod_of(host), now)
        self._wait_loop.within(0.0 if self._wait.ready else GATHER_S)

    def _meet(self, trouble: Trouble) -> None:
        """Take a failed list or watch. Raises DeliveryError at last, or if the CA can't be read any more."""
        if trouble.is_final and not trouble.status_code:
            self._renew()
        line = self._outage.failed(
            trouble.message,
            trouble.retry_in_s,
            self._loop.now(),
            status=trouble.status_code,
            is_final=trouble.is_final,
        )
        self._tell(line)
        self._wait_loop.within(GATHER_S)

    def _renew(self) -> None:
        """Read the CA again: the server may have a new one, and so may the file."""
        try:
            self._cluster.renew()
        except ConfigError as error:
            raise DeliveryError(API_SETUP, str(error)) from None

    def _meet_lost(self, message: str, retry_in_s: float) -> None:
        self._tell(self._outage.failed(message, retry_in_s, self._loop.now()))

    def _tell(self, line: str) -> None:
        if line:
            self._progress.line(line)
