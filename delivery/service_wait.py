"""Waits until a headless Service's name has the addresses of all workers: until then ranks can't find each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.common.loop import Loop
from agents.common.not_ready import NotReady, Tolerance
from delivery.sshd.dns import Found, Resolver
from delivery.wait import Limits, Wait
from delivery.wait_loop import GATHER_S, Progress, WaitLoop, count
from rshagent.call.hosts import canonical_address

AGAIN_S = 1.0
_HINT = "was its pod replaced meanwhile, or does the Service not select it?"


class ServiceWait:
    """Waits for the workers' addresses, by their pods' names. One use."""

    def __init__(self, service: str, workers: Mapping[str, Sequence[str]], limits: Limits, progress: Progress) -> None:
        self._service, self._progress = service, progress
        self._workers = {name: {canonical_address(ip) for ip in ips} for name, ips in workers.items()}
        self._loop = Loop()
        self._wait = Wait(workers, limits, self._loop.now())
        self.wait_loop = WaitLoop(self._loop, self._wait, progress)
        self._resolver = Resolver(self._loop)

    def run(self) -> None:
        """Wait. Raises DeliveryError if the time limit of a wait is over."""
        self._progress.line(f"waiting for {count(len(self._workers))} in DNS as {self._service}")
        self._ask()
        self.wait_loop.run(lambda: None, lambda _hosts: None)
        self._resolver.close()

    def _ask(self) -> None:
        self._resolver.ask(self._service, self._take)

    def _take(self, found: Found) -> None:
        known = {canonical_address(address.host) for address in found.addresses}
        missing = NotReady("name", f"not in DNS as {self._service} yet", found.error, Tolerance.GRACE, _HINT)
        for name, addresses in self._workers.items():
            self._wait.take(name, None if known & addresses else missing, self._loop.now(), mark="")
        self._loop.call_later(AGAIN_S, self._ask)
        self.wait_loop.within(0.0 if self._wait.ready else GATHER_S)
