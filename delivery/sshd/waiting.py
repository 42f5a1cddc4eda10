"""The wait as it runs: looks names up, knocks at sshds, feeds `Wait`, until every worker's sshd has answered.

An answer that has become old while others were waited for is asked for again before the end.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from delivery.hostfile import Changes, Roster, hosts_in
from delivery.judging import GATHER_S, Judging, count
from delivery.sshd import dns, words
from delivery.sshd.knock import Round
from delivery.sshd.lookups import Lookups
from delivery.sshd.presence import Presence
from delivery.sshd.worker import Worker
from delivery.wait import Wait
from rshagent.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from delivery.lack import Lack
    from delivery.progress import Progress
    from delivery.settings import Settings
    from delivery.sshd.answer import Answer
    from delivery.sshd.files import Files
    from delivery.sshd.lookups import Found
    from delivery.wait import Limits
    from rshagent.hosts import Entry
    from rshagent.loop import Timer

_RESOLV_CONF = "/etc/resolv.conf"
_LOOK_S = 1.0  # a look at the hostfile is one stat(2)
_AT_ONCE = 128  # workers that are looked up or knocked at


def waiting(entries: list[Entry], files: Files, asked: Settings, progress: Progress) -> Waiting:
    """Return the wait for these workers. Raises DeliveryError."""
    hosts = hosts_in(None, entries)
    changes = Changes(asked.hostfile, None, asked.own_names, hosts)
    return Waiting(Loop(), files, hosts=hosts, changed=changes.look, limits=asked.limits, progress=progress)


class Waiting:
    """Waits for the sshds of some hosts. One use.

    `changed()` returns the hosts that are wanted from now on, None while they are the same.
    """

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
        self._judging = Judging(loop, self._wait, progress)
        self._judging.holds = self._check_again
        self._answered_at: float | None = None  # all had, as far as is known
        self._lookups, self._presence = Lookups(loop), Presence(loop, dns.read(_text(_RESOLV_CONF)))
        self._busy = 0
        self._next_looks: dict[Worker, Timer] = {}
        self._queue: deque[Worker] = deque()
        self._hosts = hosts

    @property
    def standing(self) -> str:
        """Where the wait stands, in words."""
        return self._judging.standing

    def run(self) -> list[tuple[str, Sequence[str]]]:
        """Return the workers and their addresses; their sshds have all answered. Raises DeliveryError."""
        self._progress.line(f"waiting for the sshds of {count(len(self._hosts))}, on {words.named(self._ports)}")
        self._follow(self._hosts)
        self._judging.within(GATHER_S)
        self._loop.call_later(_LOOK_S, self._look_at_hostfile)
        try:
            self._loop.run()
        finally:
            self._lookups.close()
            self._presence.close()
        self._progress.line(self.standing)
        workers = list(self._workers.values())
        self._files.tell_ports({worker.host: worker.port for worker in workers})
        return [(worker.name, [address.host for address in worker.addresses]) for worker in workers]

    def _look_at_hostfile(self) -> None:
        self._loop.call_later(_LOOK_S, self._look_at_hostfile)
        hosts = self._changed()
        if hosts is not None:
            self._follow(hosts)
            self._progress.line(f"the hostfile has changed: waiting for {count(len(self._workers))}")
            self._judging.within(GATHER_S)

    def _follow(self, hosts: Sequence[str]) -> None:
        """Want these from now on."""
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
        for worker in unknown:  # the wait knows them by their names: one that has another is looked at as a new one
            if not worker.is_busy:
                self._look(worker)

    def _look(self, worker: Worker) -> None:
        """Look a worker's name up where that is due, and knock."""
        if worker in self._next_looks:  # this one comes before
            self._next_looks.pop(worker).cancel()
        worker.is_busy = True
        if self._busy >= _AT_ONCE:
            self._queue.append(worker)
            return
        self._busy += 1
        now = self._loop.now()
        if not worker.wants_look_up(now, self._wait.lacking):
            self._knock(worker)
        elif worker.wants_address(now) or not self._presence.ask(worker.host, partial(self._heard, worker)):
            self._look_up(worker)

    def _heard(self, worker: Worker, *, may_be_there: bool) -> None:
        if may_be_there:
            self._look_up(worker)
        else:
            self._settle(worker, worker.is_missing(self._loop.now()))

    def _look_up(self, worker: Worker) -> None:
        self._lookups.ask(worker.host, lambda found: self._found(worker, found))

    def _found(self, worker: Worker, found: Found) -> None:
        lack = worker.found(found, self._loop.now())
        if lack is None:
            self._knock(worker)
        else:
            self._settle(worker, lack)

    def _knock(self, worker: Worker) -> None:
        connect_s = worker.connect_s(self._loop.now())
        Round(
            self._loop, worker.addresses, self._ports, connect_s, lambda answer: self._answered(worker, answer)
        ).start()

    def _answered(self, worker: Worker, answer: Answer) -> None:
        self._settle(worker, worker.answered(answer, self._ports, self._loop.now()))

    def _settle(self, worker: Worker, lack: Lack | None) -> None:
        """Take what came of one look at a worker, and see to the next."""
        self._busy -= 1
        worker.is_busy = False
        if self._queue:
            self._loop.call_later(0.0, self._next)
        if not worker.is_wanted:
            return
        now = self._loop.now()
        worker.lacks(lack, now)
        self._wait.take(worker.name, lack, now, mark=worker.mark)
        self._judging.within(0.0 if self._wait.ready else GATHER_S)
        if lack is not None:
            self._answered_at = None
            pause_s = worker.pause_s(now, self._wait.lacking)
            self._next_looks[worker] = self._loop.call_later(pause_s, partial(self._look_if_wanted, worker))

    def _look_if_wanted(self, worker: Worker) -> None:
        del self._next_looks[worker]
        if worker.is_wanted:
            self._look(worker)

    def _next(self) -> None:
        if self._queue and self._busy < _AT_ONCE:
            self._look(self._queue.popleft())

    def _check_again(self) -> bool:
        """Ask for answers again that were old when the last came; return whether some are under way.

        By then, and not by now: where DNS is slow the first would be old again before the last is back.
        """
        if self._answered_at is None:
            self._answered_at = self._loop.now()
        for worker in self._workers.values():
            if not worker.is_busy and worker.is_doubted(self._answered_at, len(self._workers)):
                self._look(worker)
        return any(worker.is_busy for worker in self._workers.values())


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
