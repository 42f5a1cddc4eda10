"""The hub's socket, its watch over the workers, its log, and how it ends."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from signal import Signals
from typing import TYPE_CHECKING

from rshagent import surroundings
from rshagent.engine import Engine
from rshagent.execution import Where
from rshagent.hub.client import Client
from rshagent.hub.ending import LONGEST_S, Deadline, Sweep, kill_after
from rshagent.hub.listening import listen
from rshagent.hub.metrics import Metrics, result_of
from rshagent.hub.workers import Workers
from rshagent.launch import NOT_ASKED
from rshagent.podwatch import PodWatch, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rshagent.cluster import Cluster
    from rshagent.hub.settings import Settings
    from rshagent.launch import Launch
    from rshagent.loop import Loop

_ACCEPT_AGAIN_S = 0.5
_SIGTERM = 15
_FIRST_WORD_S = 10.0  # for an API server that says nothing at all
_LAST_WORDS_S = 2.5  # for streams to bring their status, and for a launch's second look at what was asked just before


class Hub:
    """All clients of one launcher pod."""

    def __init__(self, loop: Loop, cluster: Cluster, settings: Settings, environ: Mapping[str, str]) -> None:
        self.loop, self.environ, self._settings = loop, environ, settings
        self.container, self.pod = settings.container, settings.pod
        self.engine = Engine(
            loop,
            cluster,
            launcher=settings.launcher,
            max_starts=settings.max_starts,
            limits_text=environ.get("MPI_AGENT_LIMITS") or "",
            protocols_text=environ.get("MPI_AGENT_PROTOCOLS") or "",
        )
        self.engine.finds_workers = bool(settings.selector)
        self.engine.text_by_stdin = settings.text_by_stdin
        self.engine.on_retry = self._retried
        self.metrics = Metrics()
        self._clients: set[Client] = set()
        self._is_ending = False
        self._is_swept = False
        self._sweep: Sweep | None = None
        self._watch: PodWatch | None = None
        self._is_blind = False
        self._waiting: list[Callable[[], None]] = []  # for the first list of workers
        self._asking: list[Callable[[], None]] = []  # for that, or for why there is none
        self._is_told = not settings.watch
        self.why_unwatched = "no list of them has come yet" if settings.watch else "the hub does not watch them"
        self.refusal = ""  # why no command is started any more
        self._deadline = Deadline(loop, self.end)
        self._started: dict[str, Where] = {}  # where sessions have run; daemons of theirs may be there still
        self._is_successor = os.path.lexists(settings.socket)  # of a hub that died, and did not say where it had been
        self.workers = Workers(
            settings.hostfile,
            settings.hosts,
            cluster.namespace,
            settings.own_names,
            self._workers_changed,
            by_selector=bool(settings.selector),
        )
        self._socket = listen(settings.socket, mode=0o600 if settings.is_own else 0o666)

    def start(self) -> None:
        """Serve, and watch the workers."""
        self.loop.add(self._socket.fileno(), select.EPOLLIN, self._accept)
        self._start_watch()
        self.log(f"serving {self._settings.socket}, at most {self._settings.max_starts} starts at once")

    def pod_ends(self, grace_s: int) -> None:
        """Take the preStop hook's word that our pod is being deleted: start no more, and know when to end the job."""
        if self._deadline.is_set:
            return
        self.log("the pod ends")
        self.refusal = "the launcher's pod is being deleted: nothing is started any more"
        self._deadline.set(grace_s)
        self._deadline.ask(self.engine.cluster, self._settings.pod)

    def end(self, number: int = _SIGTERM) -> None:
        """Accept no more, end all that the launcher has started in workers, then stop the loop."""
        if self._is_ending:
            return
        self._is_ending = True
        if not self._deadline.is_set:
            self.log(f"the hub was told to end ({Signals(number).name}), so the job is ended")
        left_s = self._deadline.left_s()
        longest_s = min(left_s or LONGEST_S, LONGEST_S)
        self.loop.remove(self._socket.fileno())
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._settings.socket)
        places = self._places()
        self.log(f"ending {len(self._launches())} sessions, and what is left in {len(places)} workers")
        swept = {_key(where) for where in places}
        # Those that wait first: a place among the starts that becomes free would be theirs.
        for launch in sorted(self._launches(), key=lambda one: one.state not in NOT_ASKED):
            # Those that have a stream end by it when their processes do, which one exec per worker sees to.
            is_left_to_it = launch.state == "acknowledged" and _key(launch.where) in swept
            launch.end(_SIGTERM, longest_s if is_left_to_it else 0)
        for client in list(self._clients):
            client.end(_SIGTERM)
        of_pod = surroundings.instance_of(self.engine.launcher, self.pod, "")
        self._sweep = Sweep(
            self.engine, places, of_pod, kill_after(left_s),
            may_hold=self._may_hold, on_left=self._left, on_done=self._swept,
        )  # fmt: skip
        self._sweep.start()
        self.loop.call_later(longest_s, self._time_is_over)

    def forget(self, client: Client) -> None:
        """Drop a client that has gone."""
        self._clients.discard(client)

    def ended(self, launch: Launch) -> None:
        """Count and log an ended session. Nothing of the command is in the line."""
        self.metrics.count(launch)
        if launch.times.acknowledged:
            self._note(launch.where)
        times = launch.times
        start_s = f"{times.acknowledged - times.created:.3f}" if times.acknowledged else "-"
        self.log(
            f"session={launch.mark.session} host={launch.where.pod} seconds={times.ended - times.created:.3f} "
            f"start={start_s} exit={launch.code} result={result_of(launch)} retries={launch.retries}"
            + (f' reason="{launch.reason}"' if launch.reason else "")
        )
        self._stop_if_done()

    def hosts_now(self) -> list[str] | None:
        """Return the hosts that are Ready, by the last that was heard of them; None where that is nothing."""
        pods = self.engine.pods
        return None if pods is None else self.workers.discover(pods, self._settings.slots)

    def once_known(self, go: Callable[[], None]) -> bool:
        """Call `go()` once the first list of workers has come, or is forbidden; False if there is no such wait."""
        waits = self._settings.watch and self.engine.finds_workers and self.engine.pods is None and not self._is_blind
        if waits:
            self._waiting.append(go)
        return waits

    def once_told(self, go: Callable[[], None]) -> bool:
        """Call `go()` at the first word of the workers: their list, or why there is none; False if there was one."""
        waits = not self._is_told
        if waits:
            self._asking.append(go)
        return waits

    def no_hostfile(self) -> str:
        """Return what to say where there is no hostfile, else ""."""
        if not self.workers.is_missing:
            return ""
        return f"there is no hostfile {self._settings.hostfile}, so no worker is known"

    def text_metrics(self) -> str:
        """Return the metrics as they are now."""
        return self.metrics.text(len(self._launches()))

    def log(self, text: str) -> None:
        """Write one line to our own stderr."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        sys.stderr.write(f"{now} hub {text}\n")

    def _launches(self) -> list[Launch]:
        return [launch for launches in self.engine.launches.values() for launch in launches]

    def _note(self, where: Where) -> None:
        self._started.setdefault(_key(where), where)

    def _places(self) -> list[Where]:
        """Return where processes of ours may be, of the containers in which something was started."""
        for launch in self._launches():
            self._note(launch.where)
        if self._is_successor:
            for worker in self.workers.all(self.engine.pods):
                pod = (self.engine.pods or {}).get(worker.pod)
                container = self.container or (pod.main_container if pod is not None else None)
                self._note(Where(worker.namespace, worker.pod, container or None))
        return [where for where in self._started.values() if self._may_hold(where)]

    def _may_hold(self, where: Where) -> bool:
        """Say whether a container runs, and will: in a pod that is being deleted the kubelet ends all."""
        if not self.engine.is_watched(where.namespace):
            return True
        assert self.engine.pods is not None
        pod = self.engine.pods.get(where.pod)
        if pod is None or pod.deleting or pod.phase != "Running":
            return False
        state = pod.container(where.container)
        return state is None or state.state == "running"

    def _left(self, where: Where, reason: str) -> None:
        self.log(f'host={where.pod} left="{reason}"')

    def _swept(self) -> None:
        self._is_swept = True
        self.loop.call_later(_LAST_WORDS_S, self._leave)
        self._stop_if_done()

    def _time_is_over(self) -> None:
        if self._sweep is not None:
            self._sweep.give_up()
        self._leave()

    def _leave(self) -> None:
        for launch in self._launches():
            launch.leave()
        self.loop.stop()

    def _stop_if_done(self) -> None:
        if self._is_swept and not self._launches():
            # The exit codes that were just sent are in the kernel already; a client that is slow to read keeps them.
            self.loop.call_later(0, self.loop.stop)

    def _accept(self, _events: int) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:  # out of descriptors: the client waits in the backlog
                self.log(f"a client can't be accepted: {error.strerror}")
                self.loop.remove(self._socket.fileno())
                self.loop.call_later(_ACCEPT_AGAIN_S, self._listen_again)
                return
            connection.setblocking(False)
            self._clients.add(Client(self, connection))

    def _listen_again(self) -> None:
        if not self._is_ending:
            self.loop.add(self._socket.fileno(), select.EPOLLIN, self._accept)

    def _workers_changed(self) -> None:
        if self._watch is not None:
            self._watch.relist(self._wanted())

    def _wanted(self) -> frozenset[str] | None:
        """Return the pods to watch: a worker that was taken out of the hostfile may still have sessions."""
        names = self.workers.names
        return None if names is None else names | self.engine.launches.keys()

    def _retried(self, launch: Launch, reason: str) -> None:
        self.log(f'session={launch.mark.session} host={launch.where.pod} retry={launch.retries} reason="{reason}"')

    def _start_watch(self) -> None:
        if not self._settings.watch:
            return
        cluster = self.engine.cluster
        self._watch = PodWatch(
            self.loop,
            cluster,
            cluster.namespace,
            selector=self._settings.selector,
            wanted=self._wanted(),
            on_change=self._pods_changed,
            on_trouble=self._watch_trouble,
        )
        self._watch.start()
        self.loop.call_later(_FIRST_WORD_S, self._told)

    def _pods_changed(self, name: str | None) -> None:
        assert self._watch is not None
        self.engine.pods = self._watch.pods
        self._told()
        self._let_in(self._waiting)
        self.engine.pod_changed(name)
        if self._sweep is not None:
            self._sweep.look_again()

    def _told(self) -> None:
        self._is_told = True
        self._let_in(self._asking)

    def _let_in(self, waiting: list[Callable[[], None]]) -> None:
        for go in waiting:
            self.loop.call_later(0, go)
        waiting.clear()

    def _watch_trouble(self, trouble: Trouble) -> None:
        self.why_unwatched = trouble.message
        self._told()
        if trouble.is_final:
            self._is_blind = True
            self._let_in(self._waiting)
        self.log(f"the workers can't be watched: {trouble.message}; next try in {trouble.retry_in_s:.1f} s")


def _key(where: Where) -> str:
    return f"{where.namespace}/{where.pod}/{where.container}"
