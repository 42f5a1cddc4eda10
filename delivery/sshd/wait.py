"""Waits for the workers' sshds: looks their names up, probes them, and feeds the wait, until every one has answered.

An answer that is old by the time the last worker answers is checked again before the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from agents.common.loop import Loop, Timer
from agents.common.not_ready import NotReady
from agents.common.ssh_probe import Outcome, Probe, Result
from delivery.hostfile import Changes, Roster, hosts_in
from delivery.settings import Settings, read_text
from delivery.sshd import dns
from delivery.sshd.dns import Address, DnsProbe, Found, Resolver
from delivery.sshd.launcher import Files
from delivery.sshd.worker import Worker, named_ports
from delivery.wait import Limits, Wait
from delivery.wait_loop import GATHER_S, Progress, WaitLoop, count
from rshagent.call.hosts import Entry

_IDENTIFICATION = b"SSH-2.0-mpi-delivery\r\n"


class WorkerProbe:
    """Probes all addresses and ports of one worker; `on_done(result)` gets the first sshd, else the best result."""

    def __init__(
        self,
        loop: Loop,
        addresses: Iterable[Address],
        ports: Sequence[int],
        connect_s: float,
        on_done: Callable[[Result], None],
    ) -> None:
        self._on_done = on_done
        self._best: Result | None = None
        self._left = [
            Probe(loop, address.family, (address.host, port, *address.rest), _IDENTIFICATION, connect_s, self._take)
            for address in addresses
            for port in ports
        ]

    def start(self) -> None:
        """Connect. `on_done` may be called before this returns."""
        for one in list(self._left):
            if self._left:
                one.start()

    def _take(self, one: Probe, found: Result) -> None:
        self._left.remove(one)
        if self._best is None or found.outcome > self._best.outcome:
            self._best = found
        if found.outcome is Outcome.READY:
            for other in self._left:
                other.close()
            self._left.clear()
        if not self._left:
            self._on_done(self._best)


RESOLV_CONF = "/etc/resolv.conf"
_AT_ONCE = 128  # workers that are looked up or probed


def sshd_wait(entries: list[Entry], files: Files, asked: Settings, progress: Progress) -> SshdWait:
    """Return the wait for these workers. Raises DeliveryError."""
    hosts = hosts_in(None, entries)
    changes = Changes(asked.hostfile, None, asked.own_names, hosts)
    return SshdWait(Loop(), files, hosts=hosts, changed=changes.look, limits=asked.limits, progress=progress)


class SshdWait:
    """Waits for the sshds of some hosts. One use. `changed`: see `WaitLoop.run`."""

    def __init__(
        self,
        loop: Loop,
        files: Files,
        *,
        hosts: Sequence[str],
        changed: Callable[[], list[str] | None],
        limits: Limits,
        progress: Progress,
    ) -> None:
        self._loop, self._files, self._progress, self._changed = loop, files, progress, changed
        self._ports = files.ports
        self._workers: dict[str, Worker] = {}
        self._wait = Wait((), limits, loop.now())
        self.wait_loop = WaitLoop(loop, self._wait, progress, holds=self._check_again)
        self._answered_at: float | None = None  # when all had answered, as far as is known
        self._resolver, self._dns_probe = Resolver(loop), DnsProbe(loop, dns.read_resolv_conf(read_text(RESOLV_CONF)))
        self._busy = 0
        self._next_looks: dict[Worker, Timer] = {}
        self._queue: deque[Worker] = deque()
        self._hosts = hosts

    def run(self) -> list[tuple[str, Sequence[str]]]:
        """Return the workers and their addresses; their sshds have all answered. Raises DeliveryError."""
        self._progress.line(f"waiting for the sshds of {count(len(self._hosts))}, on {named_ports(self._ports)}")
        self.follow(self._hosts)
        try:
            self.wait_loop.run(self._changed, self.follow)
        finally:
            self.close()
        workers = list(self._workers.values())
        self._files.use_ports({worker.host: worker.port for worker in workers})
        return [(worker.name, [address.host for address in worker.addresses]) for worker in workers]

    def close(self) -> None:
        """Stop looking names up."""
        self._resolver.close()
        self._dns_probe.close()

    def follow(self, hosts: Sequence[str]) -> None:
        """Wait for these hosts from now on."""
        before, now = self._workers, self._loop.now()
        self._answered_at = None
        names = Roster(hosts).display_names()
        self._workers = {host: before.get(host) or Worker(host, now) for host in names}
        unknown = [worker for host, worker in self._workers.items() if host not in before or worker.name != names[host]]
        for host, worker in self._workers.items():
            worker.name = names[host]
        self._wait.follow(names.values(), now)
        for host, worker in before.items():
            worker.is_wanted = host in names
        for worker in unknown:  # the wait knows them by their names: a renamed worker is probed as a new one
            if not worker.is_busy:
                self._look(worker)

    def _look(self, worker: Worker) -> None:
        """Look up a worker's name if that is due, and probe its sshd."""
        if worker in self._next_looks:  # a timer of a later probe
            self._next_looks.pop(worker).cancel()
        worker.is_busy = True
        if self._busy >= _AT_ONCE:
            self._queue.append(worker)
            return
        self._busy += 1
        now = self._loop.now()
        if not worker.wants_look_up(now, self._wait.waiting):
            self._probe(worker)
        elif worker.wants_address(now) or not self._dns_probe.ask(
            worker.host,
            lambda: self._settle(worker, worker.is_missing(self._loop.now())),
            lambda: self._look_up(worker),
        ):
            self._look_up(worker)

    def _look_up(self, worker: Worker) -> None:
        self._resolver.ask(worker.host, lambda found: self._found(worker, found))

    def _found(self, worker: Worker, found: Found) -> None:
        reason = worker.found(found, self._loop.now())
        if reason is None:
            self._probe(worker)
        else:
            self._settle(worker, reason)

    def _probe(self, worker: Worker) -> None:
        def take(result: Result) -> None:
            self._settle(worker, worker.answered(result, self._ports, self._loop.now()))

        connect_s = worker.connect_s(self._loop.now())
        WorkerProbe(self._loop, worker.addresses, self._ports, connect_s, take).start()

    def _settle(self, worker: Worker, reason: NotReady | None) -> None:
        """Take the outcome of one probe of a worker, and schedule the next."""
        self._busy -= 1
        worker.is_busy = False
        if self._queue:
            self._loop.call_later(0.0, self._next)
        if not worker.is_wanted:
            return
        now = self._loop.now()
        worker.settle(reason, now)
        self._wait.take(worker.name, reason, now, mark=worker.mark)
        self.wait_loop.within(0.0 if self._wait.ready else GATHER_S)
        if reason is not None:
            self._answered_at = None
            pause_s = worker.pause_s(now, self._wait.waiting)
            self._next_looks[worker] = self._loop.call_later(pause_s, partial(self._look_if_wanted, worker))

    def _look_if_wanted(self, worker: Worker) -> None:
        del self._next_looks[worker]
        if worker.is_wanted:
            self._look(worker)

    def _next(self) -> None:
        if self._queue and self._busy < _AT_ONCE:
            self._look(self._queue.popleft())

    def _check_again(self) -> bool:
        """Check answers again that were old when the last one came; return whether such checks are running.

        Age counts at that moment, not now: with a slow DNS the first would be old again before the last is back.
        """
        if self._answered_at is None:
            self._answered_at = self._loop.now()
        for worker in self._workers.values():
            if not worker.is_busy and worker.is_doubted(self._answered_at, len(self._workers)):
                self._look(worker)
        return any(worker.is_busy for worker in self._workers.values())
