"""The hub's socket, its watch over the workers, its log, and how it ends."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from signal import Signals
from typing import TYPE_CHECKING

from agents.common.text import LINE_MAX, printable
from rshagent.call import surroundings
from rshagent.call.bootstrap import LauncherMark, OtherMarks
from rshagent.hub import cuts
from rshagent.hub.client import SESSIONS_MAX, Client
from rshagent.hub.ending import LONGEST_S, Deadline, Sweep, kill_after
from rshagent.hub.listening import listen
from rshagent.hub.metrics import Metrics, result_of
from rshagent.hub.pending import Pending
from rshagent.hub.workers import Workers
from rshagent.pods.podwatch import PodWatch, Trouble
from rshagent.session.engine import SPARED_MAX, Engine
from rshagent.session.execution import Where
from rshagent.session.launch import NOT_ASKED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agents.common.loop import Loop
    from agents.common.pods import Pod
    from rshagent.hub.settings import Settings
    from rshagent.net.cluster import Cluster
    from rshagent.session.launch import Launch

_ACCEPT_AGAIN_S = 0.5
_ACCEPTS = 64  # at once: then those that were accepted have their turn
_TEXT_MAX = 16 << 20  # of commands that are to be started, together
_SHORT_TEXT = 4096  # commands up to this have always room: of as many as there can be sessions, that is 16 MiB, too
_LONG_TEXT, _COPIES = 64 << 10, 4  # while a long one is sent there are so many of it
_ROOM_AGAIN_S = 0.1
_CLIENTS_BACK_S = 10.0  # so long a client tries to find the next hub (client.c)
_SIGTERM = 15
_SIGKILL = 9
_FIRST_WORD_S = 10.0  # for an API server that says nothing at all
_LAST_WORDS_S = 2.5  # for streams to bring their status, and for a launch's second look at what was asked just before


class Hub:
    """All clients of one launcher pod."""

    def __init__(self, loop: Loop, cluster: Cluster, settings: Settings, environ: Mapping[str, str]) -> None:
        self.loop, self.environ, self._settings = loop, environ, settings
        self.container, self.pod = settings.container, settings.pod
        # The one that another container sees as well is the pod's.
        self.shared_first_process = (
            surroundings.shared_first_process() if settings.is_own else surroundings.first_process()
        )
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
        self.cuts = cuts.Cuts()
        self._clients: set[Client] = set()
        self.pending = Pending(loop)
        self._roomless: dict[Client, tuple[int, Callable[[], None]]] = {}
        self._looks_for_room = False
        self._is_ending = False
        self._is_swept = False
        self._sweep: Sweep | None = None
        self._watch: PodWatch | None = None
        self._is_blind = False
        self._waiting: dict[Client, Callable[[], None]] = {}  # for the first list of workers
        self._asking: dict[Client, Callable[[], None]] = {}  # for that, or for why there is none
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
        if self._is_successor:
            self.engine.cleans_from = self.loop.now() + _CLIENTS_BACK_S
            self.loop.call_later(_CLIENTS_BACK_S, self._clean_up)
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
        self._leave_message()
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
            launch.ours = (*launch.ours, _SIGTERM)
            # Those that have a stream end by it when their processes do, which one exec per worker sees to.
            is_left_to_it = launch.state == "acknowledged" and _key(launch.where) in swept
            launch.end(_SIGTERM, longest_s if is_left_to_it else 0)
        for client in list(self._clients):
            client.end(_SIGTERM)
        of_pod = surroundings.instance_of(self.engine.launcher, self.pod, "")
        kill_s = kill_after(left_s)
        self.loop.call_later(kill_s, self._killed)
        self._sweep = Sweep(
            self.engine, places, lambda where: LauncherMark(self.engine.launcher, where.pod, of_pod), kill_s,
            may_hold=self._may_hold, on_left=self._left, on_done=self._swept,
        )  # fmt: skip
        self._sweep.start()
        self.loop.call_later(longest_s, self._time_is_over)

    def forget(self, client: Client) -> None:
        """Drop a client that has gone."""
        self._clients.discard(client)
        self.pending.remove(client)
        for waiting in (self._waiting, self._asking):
            waiting.pop(client, None)
        self._roomless.pop(client, None)

    @property
    def is_full(self) -> bool:
        """Say whether there are as many sessions as there can be."""
        return len(self._clients) - len(self.pending) >= SESSIONS_MAX

    def has_room(self, size: int) -> bool:
        """Say whether a command of so many bytes can be held until it has been started."""
        return size <= _SHORT_TEXT or _fits(size, self._text_held())

    def once_room(self, client: Client, size: int, go: Callable[[], None]) -> None:
        """Call `go()` when there is room for a command of so many bytes."""
        self._roomless[client] = size, go
        if not self._looks_for_room:
            self._looks_for_room = True
            self.loop.call_later(_ROOM_AGAIN_S, self._look_for_room)

    def ended(self, launch: Launch) -> None:
        """Count and log an ended session. Nothing of the command is in the line."""
        self.metrics.count(launch)
        is_cut = self.cuts.end(launch)
        if is_cut and self._is_ending:
            self._leave_message()
        if launch.times.acknowledged:
            self._note(launch.where)
        times = launch.times
        start_s = f"{times.acknowledged - times.created:.3f}" if times.acknowledged else "-"
        self.log(
            f"session={launch.mark.session} host={launch.where.pod} seconds={times.ended - times.created:.3f} "
            f"start={start_s} exit={launch.code} result={result_of(launch)} retries={launch.retries}"
            + (f" reason={_quoted(launch.reason)}" if launch.reason else "")
            + (f" lost={_quoted(launch.cut)}" if is_cut else "")
        )
        self._stop_if_done()

    def _leave_message(self) -> None:
        """Say which daemons were lost: at once, as the kubelet may cut the hub's own end short."""
        message = self.cuts.message()
        if message and not self._settings.is_own:
            cuts.leave(message, self.environ.get("MPI_AGENT_TERMINATION_LOG") or cuts.TERMINATION_LOG)

    def hosts_now(self) -> list[str] | None:
        """Return the hosts that are Ready, by the last that was heard of them; None where that is nothing."""
        pods = self.engine.pods
        return None if pods is None else self.workers.discover(pods, self._settings.slots)

    def pods_now(self) -> list[Pod] | None:
        """Return the workers' pods, by the last that was heard of them; None where that is nothing."""
        pods = self.engine.pods
        return None if pods is None else [*self.workers.seen(pods).values()]

    def once_known(self, client: Client, go: Callable[[], None]) -> bool:
        """Call `go()` once the first list of workers has come, or is forbidden; False if there is no such wait."""
        waits = self._settings.watch and self.engine.finds_workers and self.engine.pods is None and not self._is_blind
        if waits:
            self._waiting[client] = go
        return waits

    def once_told(self, client: Client, go: Callable[[], None]) -> bool:
        """Call `go()` at the first word of the workers: their list, or why there is none; False if there was one."""
        waits = not self._is_told
        if waits:
            self._asking[client] = go
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
        """Write one line to our own stderr, whatever is in the text."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        sys.stderr.write(printable(f"{now} hub {text}", LINE_MAX - 1) + "\n")

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

    def _clean_up(self) -> None:
        """Make up for what launches had to leave: a former hub's clients are back, or gone."""
        deferred, self.engine.deferred = self.engine.deferred, {}
        if self._is_ending or not deferred or len(self.engine.living) > SPARED_MAX:
            return

        def mark_of(where: Where) -> OtherMarks:
            spared = (*deferred[where.pod][1], *self.engine.spared(()))
            self.engine.note_cleanup(self, where.pod, spared)
            return OtherMarks(self.engine.launcher, where.pod, spared)

        def done() -> None:
            for pod in deferred:
                self.engine.end_cleanup(self, pod)

        places = [where for where, _ in deferred.values()]
        Sweep(self.engine, places, mark_of, 0.0, may_hold=self._may_hold, on_left=self._left, on_done=done).start()

    def _left(self, where: Where, reason: str) -> None:
        self.log(f"host={where.pod} left={_quoted(reason)}")

    def _killed(self) -> None:
        for launch in self._launches():
            launch.ours = (*launch.ours, _SIGKILL)

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
        for _ in range(_ACCEPTS):
            try:
                connection, _address = self._socket.accept()
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
        told = f"session={launch.mark.session} host={launch.where.pod} retry={launch.retries}"
        self.log(f"{told} reason={_quoted(reason)}")

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

    def _let_in(self, waiting: dict[Client, Callable[[], None]]) -> None:
        for go in waiting.values():
            self.loop.call_later(0, go)
        waiting.clear()

    def _look_for_room(self) -> None:
        """Let in the first for whom there is room, and look again when it is in: it has taken some."""
        held = self._text_held()
        first = next((client for client, (size, _) in self._roomless.items() if _fits(size, held)), None)
        if first is not None:
            self.loop.call_later(0, self._roomless.pop(first)[1])
        self._looks_for_room = bool(self._roomless)
        if self._looks_for_room:
            self.loop.call_later(_ROOM_AGAIN_S if first is None else 0, self._look_for_room)

    def _text_held(self) -> int:
        return sum(_cost(launch.text_size) for launch in self._launches())

    def _watch_trouble(self, trouble: Trouble) -> None:
        self.why_unwatched = trouble.message
        self._told()
        if trouble.is_final:
            self._is_blind = True
            self._let_in(self._waiting)
        self.log(f"the workers can't be watched: {trouble.message}; next try in {trouble.retry_in_s:.1f} s")


def _cost(size: int) -> int:
    return size * _COPIES if size > _LONG_TEXT else size


def _fits(size: int, held: int) -> bool:
    return not held or held + _cost(size) <= _TEXT_MAX


def _quoted(text: str) -> str:
    """Return a value in quotes, which it can't end."""
    return '"' + text.replace('"', "'") + '"'


def _key(where: Where) -> str:
    return f"{where.namespace}/{where.pod}/{where.container}"
