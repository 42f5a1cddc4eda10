"""The hub's socket, its watch over the workers, its log, and how it ends."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import sys
import time
from signal import Signals
from typing import TYPE_CHECKING

from agents.common import termination
from agents.common.text import LINE_MAX, printable
from rshagent.call import surroundings
from rshagent.hub import cuts
from rshagent.hub.admission import Admission
from rshagent.hub.ending import Deadline
from rshagent.hub.listening import listen
from rshagent.hub.metrics import Metrics, result_of
from rshagent.hub.pending import Pending
from rshagent.hub.shutdown import Shutdown, quoted
from rshagent.hub.workers import Workers
from rshagent.pods.podwatch import PodWatch, Trouble
from rshagent.session.engine import Engine

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from agents.common.loop import Loop
    from agents.common.pods import Pod
    from rshagent.call.bootstrap import Mark
    from rshagent.hub.pending import Client
    from rshagent.hub.settings import Settings
    from rshagent.net.cluster import Cluster
    from rshagent.session.session import Session

_ACCEPT_AGAIN_S = 0.5
_SIGTERM = 15
_FIRST_WORD_S = 10.0  # for an API server that says nothing at all


@functools.lru_cache(1)
def _stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Hub:
    """All clients of one launcher pod."""

    sessions_max = 4096  # of some 35 KiB each: a launcher of so many needs a larger limit on the hub's memory

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
        )
        self.engine.finds_workers = bool(settings.selector)
        self.engine.text_by_stdin = settings.text_by_stdin
        self.engine.on_retry = self._retried
        self.engine.on_outage = self._outage
        self.metrics = Metrics()
        self.cuts = cuts.Cuts()
        self.pending = Pending(loop)
        self.sessions: set[Session] = set()
        self._clients: set[Client] = set()
        self._connect: Callable[[Hub, socket.socket], Client]
        self.admission = Admission(loop, self.sessions, finds_workers=self.engine.finds_workers)
        self._watch: PodWatch | None = None
        self.why_unwatched = "no list of them has come yet"
        self.refusal = ""  # why no command is started any more
        self._deadline = Deadline(loop, self.end)
        is_successor = os.path.lexists(settings.socket)  # of a hub that died, and did not say where it had been
        self._is_unused = not is_successor
        self.workers = Workers(
            settings.hostfile,
            settings.hosts,
            cluster.namespace,
            settings.own_names,
            self._workers_changed,
            by_selector=bool(settings.selector),
        )
        self._shutdown = Shutdown(
            self.engine, self.sessions, self.workers, self.log,
            pod=self.pod, container=self.container, is_successor=is_successor,
        )  # fmt: skip
        self._socket = listen(settings.socket, mode=0o600 if settings.is_own else 0o666)

    def start(self, connect: Callable[[Hub, socket.socket], Client]) -> None:
        """Serve, and watch the workers; `connect` takes a client that was accepted."""
        self._connect = connect
        self.loop.add(self._socket.fileno(), select.EPOLLIN, self._accept)
        self._start_watch()
        self.log(f"serving {self._settings.socket}, at most {self._settings.max_starts} parallel starts")

    def pod_ends(self, grace_s: int) -> None:
        """Take the preStop hook's message that our pod is being deleted: start no more, and set the deadline."""
        if self._deadline.left_s() is not None:
            return
        self.log("the pod ends")
        self.refusal = "the launcher's pod is being deleted: nothing is started any more"
        self._deadline.set(grace_s)
        self._deadline.ask(self.engine.cluster, self._settings.pod)

    def end(self, number: int = _SIGTERM) -> None:
        """Accept no more, end all that the launcher has started in workers, then stop the loop."""
        if self._shutdown.has_begun:
            return
        if self._deadline.left_s() is None:
            self.log(f"the hub was terminated ({Signals(number).name}); ending the job")
        self._leave_message()
        self.loop.remove(self._socket.fileno())
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._settings.socket)
        self._shutdown.begin(self._deadline.left_s())
        for client in list(self._clients):
            client.end(_SIGTERM)

    def forget(self, client: Client) -> None:
        """Drop a client that has gone."""
        self._clients.discard(client)
        self.pending.remove(client)
        self.admission.forget(client)

    def instance(self, of_container: str) -> str:
        """Return the instance in a client's marks: its container's, made unique among the launcher's pods."""
        return surroundings.instance_of(self.engine.launcher, self.pod, of_container)

    @property
    def is_full(self) -> bool:
        """Say whether there are as many sessions as there can be."""
        return len(self._clients) - len(self.pending) >= self.sessions_max

    def begin(self, session: Session) -> None:
        """Take a new session."""
        self.sessions.add(session)
        self._is_unused = False
        self.cuts.begin(session)

    def ended(self, session: Session) -> None:
        """Count and log an ended session. Nothing of the command is in the line."""
        self.sessions.discard(session)
        self.metrics.count(session)
        is_cut = self.cuts.end(session)
        if is_cut and self._shutdown.has_begun:
            self._leave_message()
        facts, start_s = session.facts, "-"
        if facts.acknowledged_at:
            self._shutdown.note(session.target)
            start_s = f"{facts.acknowledged_at - facts.created_at:.3f}"
        self.log(
            f"session={session.mark.session} host={session.target.pod} seconds={facts.ended_at - facts.created_at:.3f} "
            f"start={start_s} exit={facts.code} result={result_of(session)} retries={facts.retries}"
            + (f" reason={quoted(facts.reason)}" if facts.reason else "")
            + (f" lost={quoted(facts.cut)}" if is_cut else "")
        )
        self._shutdown.stop_if_done()

    def _leave_message(self) -> None:
        """Report lost daemons, or that no session was requested; immediately, because the kubelet may kill us soon."""
        message = termination.UNUSED if self._is_unused else self.cuts.message()
        if message and not self._settings.is_own:
            termination.leave(message, self.environ)

    def hosts_now(self) -> list[str] | None:
        """Return the hosts that were Ready at the last event of the watch; None before its first list."""
        pods = self.engine.pods
        return None if pods is None else self.workers.discover(pods, self._settings.slots)

    def pods_now(self) -> list[Pod] | None:
        """Return the workers' pods as of the last event of the watch; None before its first list."""
        pods = self.engine.pods
        return None if pods is None else [*self.workers.seen(pods).values()]

    def no_hostfile(self) -> str:
        """Return what to say where there is no hostfile, else ""."""
        if not self.workers.is_missing:
            return ""
        return f"there is no hostfile {self._settings.hostfile}, so no worker is known"

    def log(self, text: str) -> None:
        """Write one line to our own stderr, whatever is in the text."""
        sys.stderr.write(printable(f"{_stamp(int(time.time()))} hub {text}", LINE_MAX - 1) + "\n")

    def _accept(self, _events: int) -> None:
        """Take one client: those that were taken have their turn before the next."""
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
        self._clients.add(self._connect(self, connection))

    def _listen_again(self) -> None:
        if not self._shutdown.has_begun:
            self.loop.add(self._socket.fileno(), select.EPOLLIN, self._accept)

    def _workers_changed(self) -> None:
        if self._watch is not None:
            self._watch.relist(self._wanted())

    def _wanted(self) -> frozenset[str] | None:
        """Return the pods to watch: a worker that was taken out of the hostfile may still have sessions."""
        names = self.workers.names
        return None if names is None else names | self.engine.followers.keys()

    def _retried(self, mark: Mark, retries: int, reason: str) -> None:
        self.log(f"session={mark.session} host={mark.pod} retry={retries} reason={quoted(reason)}")

    def _outage(self, mark: Mark, message: str) -> None:
        self.log(f"session={mark.session} host={mark.pod} outage={quoted(message)}")

    def _start_watch(self) -> None:
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
        self.loop.call_later(_FIRST_WORD_S, self.admission.answered)

    def _pods_changed(self, name: str | None) -> None:
        assert self._watch is not None
        self.engine.pods = self._watch.pods
        self.admission.answered()
        self.admission.listed()
        self.engine.pod_changed(name)
        self._shutdown.pods_changed()

    def _watch_trouble(self, trouble: Trouble) -> None:
        self.why_unwatched = trouble.message
        self.admission.answered()
        if trouble.is_final:
            self.admission.listed()
        self.log(f"the workers can't be watched: {trouble.message}; next try in {trouble.retry_in_s:.1f} s")
