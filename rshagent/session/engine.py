"""What all sessions of a hub share: the loop, the cluster, the limit on starts, the pods as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from rshagent.net.cluster import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agents.common.loop import Loop
    from agents.common.pods import Pod
    from rshagent.call.bootstrap import Mark
    from rshagent.net.cluster import Cluster
    from rshagent.session.target import ExecTarget

SPARED_MAX = 32
MAX_STARTS = 64  # in parallel, until acknowledged: more only makes the kubelets' and the API server's queues longer

# Seconds. Each can be set by MPI_AGENT_LIMITS, as in "start=300,settle=20".
DEFAULT_LIMITS = {
    "start": 120.0,  # for all tries of one launch together
    "acknowledge": 60.0,  # for one try, from its request
    "worker": 300.0,  # for a worker to come back after a restart
    "absent": 60.0,  # for a worker that was found by its label and is not there: it may have been scaled away
    "unready": 30.0,  # for a worker that runs, but whose readiness probe fails
    "settle": 60.0,  # without an answer about a session whose stream was lost, though the API server can be reached
    "outage": 3600.0,  # for an API server that can't be reached, while a session whose stream was lost is asked about
    "reap": 30.0,  # to end a session's processes
    "ping": 10.0,  # proxies cut idle connections after 20 s and more (kubernetes/kubernetes#94301)
    "silence": 60.0,  # without a byte from the API server (kubernetes/kubernetes#123679)
}


def limits(text: str) -> dict[str, float]:
    """Read MPI_AGENT_LIMITS. Raises ConfigError for a name that is none, or a number that is none or not positive."""
    found = dict(DEFAULT_LIMITS)
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if not name:
            continue
        if name not in found:
            raise ConfigError(f"MPI_AGENT_LIMITS has no limit {name!r}; it has {', '.join(DEFAULT_LIMITS)}")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < 1e9:
            raise ConfigError(f"the limit {name} in MPI_AGENT_LIMITS is not a number of seconds")
    return found


class StartLimiter:
    """Lets at most `limit` starts be under way; the others wait in the order in which they came."""

    __slots__ = ("_is_opening", "_limit", "_waiting", "inside")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[object, Callable[[], None]] = {}  # keeps the order, and lets one leave from the middle
        self.inside: set[object] = set()
        self._is_opening = False

    def enter(self, who: object, go: Callable[[], None]) -> None:
        """Call `go()` now, or when it is the turn of `who`."""
        if len(self.inside) < self._limit:
            self.inside.add(who)
            go()
        else:
            self._waiting[who] = go

    def leave(self, who: object) -> None:
        """Make room; harmless for who is not there."""
        self._waiting.pop(who, None)
        self.inside.discard(who)
        if self._is_opening:  # one that was just let in leaves: the loop below continues, a call deeper would not
            return
        self._is_opening = True
        try:
            while self._waiting and len(self.inside) < self._limit:
                first = next(iter(self._waiting))
                go = self._waiting.pop(first)
                self.inside.add(first)
                go()
        finally:
            self._is_opening = False


class Follower(Protocol):
    """Who looks at a pod again when it has changed."""

    def pod_changed(self) -> None:
        """Look at the worker's pod again."""


class Engine:
    """Shared by all sessions of a hub."""

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        *,
        launcher: str,
        max_starts: int = MAX_STARTS,
        limits_text: str = "",
    ) -> None:
        """Raises ConfigError for limits that can't be read."""
        self.loop, self.cluster, self.launcher = loop, cluster, launcher
        self.limiter = StartLimiter(max_starts)
        self.by_spdy = False  # once it was found that only SPDY gets through
        self.text_by_stdin = False
        self.limits = limits(limits_text) if limits_text else DEFAULT_LIMITS
        self.on_retry: Callable[[Mark, int, str], None] = lambda _mark, _retries, _reason: None
        self.on_outage: Callable[[Mark, str], None] = lambda _mark, _message: None
        self.finds_workers = False  # whether the watch finds them by a label: whom it does not find is none any more
        # The watched namespace's pods by name; None while there is no watch or it has no complete list.
        self.pods: dict[str, Pod] | None = None
        self.followers: dict[str, set[Follower]] = {}  # sessions by pod
        self.living: dict[str, set[object]] = {}  # sessions whose client lives, by instance
        self._swept: set[tuple[str, str]] = set()  # pods that hold nothing of instances before these
        self._cleaning: dict[str, dict[object, tuple[str, ...]]] = {}  # by pod: who cleans up, and whom that spares
        self.cleans_from = 0.0  # of the loop's clock: the previous hub's clients may come back until then
        self.deferred: dict[str, tuple[ExecTarget, set[str]]] = {}  # by pod: whom the cleanup spares that was put off

    def watched(self, namespace: str) -> dict[str, Pod] | None:
        """Return the pods of a namespace by name; None while it is not watched."""
        return self.pods if namespace == self.cluster.namespace else None

    def swept(self, pod: str, instance: str) -> None:
        """Remember that this instance started something in the worker."""
        self._swept.add((pod, instance))

    def enter(self, session: Follower, mark: Mark) -> None:
        """Take a new session, whose client lives."""
        self.followers.setdefault(mark.pod, set()).add(session)
        self.living.setdefault(mark.instance, set()).add(session)

    def client_left(self, session: Follower, mark: Mark) -> None:
        """Take a session's client for dead, or done."""
        _remove(self.living, mark.instance, session)

    def leave(self, session: Follower, mark: Mark) -> None:
        """Forget a session that has ended."""
        self.client_left(session, mark)
        _remove(self.followers, mark.pod, session)

    def spared(self, instances: Iterable[str]) -> tuple[str, ...]:
        """Return how the instances' marks begin that a cleanup spares: these, and those that have clients."""
        return tuple(f"{instance}:" for instance in sorted({*instances, *self.living}))

    def begin_cleanup(self, session: object, target: ExecTarget, instance: str, life: str) -> tuple[str, ...] | None:
        """Return whom the cleanup spares that a session begins with; None where it has none to make, or not yet.

        `life` is how the instances begin that live as long as its own does.
        """
        pod = target.pod
        if (pod, instance) in self._swept:
            return None
        if self.loop.now() < self.cleans_from:
            self.deferred.setdefault(pod, (target, set()))[1].update((f"{instance}:", *([life] if life else ())))
            return None
        spared = (*self.spared((instance,)), *([life] if life else ()))
        if len(spared) > SPARED_MAX:  # it becomes part of a URL
            return None
        self.note_cleanup(session, pod, spared)
        return spared

    def note_cleanup(self, who: object, pod: str, spared: tuple[str, ...]) -> None:
        """Keep instances that are not spared from starting anything in a pod until `end_cleanup`."""
        self._cleaning.setdefault(pod, {})[who] = spared

    def end_cleanup(self, who: object, pod: str) -> tuple[str, ...] | None:
        """Let them start; return who was spared, None where nothing was cleaned up."""
        cleaning = self._cleaning.get(pod, {})
        spared = cleaning.pop(who, None)
        if not cleaning:
            self._cleaning.pop(pod, None)
        return spared

    def is_in_danger(self, pod: str, instance: str) -> bool:
        """Say whether a cleanup is under way that would end what this instance starts."""
        cleaning = self._cleaning.get(pod)
        return cleaning is not None and any(not f"{instance}:".startswith(spared) for spared in cleaning.values())

    def pod_changed(self, name: str | None) -> None:
        """Let the sessions of a pod look at it; None: all of them."""
        for pod in list(self.followers) if name is None else [name]:
            for session in list(self.followers.get(pod, ())):
                session.pod_changed()


def _remove(sets: dict[str, set[Any]], key: str, value: object) -> None:
    found = sets.get(key, set())
    found.discard(value)
    if not found:
        sets.pop(key, None)
