"""The wait as it runs: the pod watch feeds `Wait`, the loop's clock drives it, progress and API trouble are told.

It ends when all workers are Ready, when a verdict says so, or when the API server refuses us for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from delivery.exits import API_SETUP, DeliveryError
from delivery.hostfile import Changes, Roster, hosts_in
from delivery.judging import GATHER_S, Judging, count
from delivery.ownlabels import OwnSelector
from delivery.settings import checked_namespace
from delivery.trouble import ApiTrouble
from delivery.wait import Wait
from rshagent.cluster import Cluster, ConfigError
from rshagent.loop import Loop
from rshagent.podwatch import PodWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from delivery.progress import Progress
    from delivery.settings import Settings
    from rshagent.hosts import Entry
    from rshagent.pods import Pod
    from rshagent.podwatch import Trouble

_LOOK_S = 1.0  # a look at the hostfile is one stat(2)


def watching(workers: list[Entry], asked: Settings, progress: Progress) -> Watching:
    """Return the wait for these workers. Raises DeliveryError."""
    try:
        cluster = Cluster.load(asked.environ)
    except ConfigError as error:
        raise DeliveryError(API_SETUP, str(error)) from None
    namespace = checked_namespace(asked.namespace or cluster.namespace)
    hosts = hosts_in(namespace, workers)
    changes = Changes(asked.hostfile, namespace, asked.own_names, hosts)
    return Watching(Loop(), cluster, namespace, hosts=hosts, changed=changes.look, settings=asked, progress=progress)


class Watching:
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
        self._judging = Judging(loop, self._wait, progress)
        self._changed = changed
        self._watch: PodWatch | None = None
        self._trouble = ApiTrouble()
        self._judging.aside = self._trouble.words

    @property
    def standing(self) -> str:
        """Where the wait stands, in words."""
        return self._judging.standing

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
        self._judging.within(GATHER_S)
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
        self._judging.within(GATHER_S)

    def _pod_of(self, host: str) -> Pod | None:
        return self._roster.pod_of(host, self._watch.pods) if self._watch is not None else None

    def _change(self, name: str | None) -> None:
        """Take a changed pod, or after a list all of them."""
        assert self._watch is not None
        now, pods = self._loop.now(), self._watch.pods
        self._tell(self._trouble.heal(now))
        if name is None:
            for pod in pods.values():
                self._roster.touched(pod.name, pod)
        hosts = self._roster.hosts if name is None else self._roster.touched(name, pods.get(name))
        for host in hosts:
            self._wait.update(self._names[host], self._pod_of(host), now)
        self._judging.within(0.0 if self._wait.ready else GATHER_S)

    def _meet(self, trouble: Trouble) -> None:
        """Take a failed list or watch. Raises DeliveryError at last, or if the CA can't be read any more."""
        if trouble.is_final and not trouble.status_code:
            self._renew()
        line = self._trouble.meet(
            trouble.message,
            trouble.retry_in_s,
            self._loop.now(),
            status=trouble.status_code,
            is_final=trouble.is_final,
        )
        self._tell(line)
        self._judging.within(GATHER_S)

    def _renew(self) -> None:
        """Read the CA again: the server may have a new one, and so may the file."""
        try:
            self._cluster.renew()
        except ConfigError as error:
            raise DeliveryError(API_SETUP, str(error)) from None

    def _meet_lost(self, message: str, retry_in_s: float) -> None:
        self._tell(self._trouble.meet(message, retry_in_s, self._loop.now()))

    def _tell(self, line: str) -> None:
        if line:
            self._progress.line(line)
