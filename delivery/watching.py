"""The wait as it runs: the pod watch feeds `Wait`, the loop's clock drives it, progress and API trouble are told.

It ends when all workers are Ready, when a verdict says so, or when the API server refuses us for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from delivery.exits import READY, DeliveryError
from delivery.hostfile import Roster
from delivery.ownlabels import OwnSelector
from delivery.trouble import ApiTrouble
from delivery.wait import Wait
from rshagent.podwatch import PodWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from delivery.progress import Progress
    from delivery.wait import Limits
    from rshagent.cluster import Cluster
    from rshagent.loop import Loop, Timer
    from rshagent.pods import Pod
    from rshagent.podwatch import Trouble

# Changes that come together are judged together; that all are Ready is seen at once.
_GATHER_S = 0.1
_LOOK_S = 1.0  # a look at the hostfile is one stat(2)


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
        limits: Limits,
        progress: Progress,
        changed: Callable[[], list[str] | None],
    ) -> None:
        self._loop, self._cluster, self._namespace = loop, cluster, namespace
        self._progress = progress
        self._roster = Roster(hosts)
        self._names = self._roster.display_names()
        self._wait = Wait(self._names.values(), limits, loop.now())
        self._changed = changed
        self._watch: PodWatch | None = None
        self._trouble = ApiTrouble()
        self._timer: Timer | None = None
        self._judge_at = float("inf")
        self.standing = "nothing is known of the workers yet"

    def run(self, selector: str | None, own_name: str) -> list[Pod]:
        """Return the wanted pods, all Ready, in the roster's order. Raises DeliveryError.

        `selector` None: derived from the labels of this pod, called `own_name`.
        """
        if selector is None and own_name:
            path = f"/api/v1/namespaces/{quote(self._namespace)}/pods/{quote(own_name)}"
            asked = OwnSelector(self._loop, self._cluster, path, on_done=self._start, on_trouble=self._meet_lost)
            asked.start()
        else:
            self._start(selector)
        self._judge_in(_GATHER_S)
        self._loop.call_later(_LOOK_S, self._look)
        self._loop.run()
        assert self._watch is not None
        self._watch.close()
        self._progress.line(self.standing)
        return [pod for host in self._roster.hosts if (pod := self._pod_of(host)) is not None]

    def _start(self, selector: str | None) -> None:
        labelled = f" with {selector}" if selector else ""
        self._progress.line(f"waiting for {self._count()}, among the pods of namespace {self._namespace}{labelled}")
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

    def _count(self) -> str:
        hosts = len(self._names)
        return "1 worker" if hosts == 1 else f"{hosts} workers"

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
        self._progress.line(f"the hostfile has changed: waiting for {self._count()}")
        if self._watch is not None:
            self._watch.relist(self._roster.pod_names)
        self._judge_in(_GATHER_S)

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
        self._judge_in(0.0 if self._wait.ready else _GATHER_S)

    def _judge_in(self, seconds: float) -> None:
        """See to it that `_judge` runs within so many seconds."""
        when = self._loop.now() + seconds
        if when >= self._judge_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._judge_at = when
        self._timer = self._loop.call_later(seconds, self._judge)

    def _judge(self) -> None:
        self._judge_at = float("inf")
        now = self._loop.now()
        verdict = self._wait.judge(now)
        self.standing = verdict.text + self._trouble.words(now)
        if verdict.exit_code == READY:
            self._loop.stop()
            return
        if verdict.exit_code is not None:
            raise DeliveryError(verdict.exit_code, self.standing)
        key = (*verdict.key, self._trouble.is_on(now))
        self._progress.show(key, self.standing, now)
        self._judge_in(min(self._progress.next_s(key, now), verdict.check_in_s or float("inf")))

    def _meet(self, trouble: Trouble) -> None:
        """Take a failed list or watch. Raises ConfigError if the CA can't be read any more, DeliveryError at last."""
        if trouble.is_final and not trouble.status_code:
            self._cluster.renew()  # the server may have a new CA, and so may the file
        line = self._trouble.meet(
            trouble.message,
            trouble.retry_in_s,
            self._loop.now(),
            status=trouble.status_code,
            is_final=trouble.is_final,
        )
        self._tell(line)
        self._judge_in(_GATHER_S)

    def _meet_lost(self, message: str, retry_in_s: float) -> None:
        self._tell(self._trouble.meet(message, retry_in_s, self._loop.now()))

    def _tell(self, line: str) -> None:
        if line:
            self._progress.line(line)
