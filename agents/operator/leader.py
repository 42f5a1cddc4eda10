"""Leader election by a Lease, as in client-go.

`kubernetes.leaderelection` is not used: it can't be stopped, it releases the lease only by letting it expire, and its
LeaseLock needs a typed API, which doubles the memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from agents.job.json_object import Body
from agents.kube.api import Api
from agents.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from agents.kube.kinds import LEASE

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds; client-go's defaults for Kubernetes' own components."""

    lease_s: int = 15  # others take a lease that was not renewed for this long
    renew_s: float = 10.0  # a leader that could not renew for this long stops acting
    retry_s: float = 2.0


class Leader:
    """One candidate. Check `leads` before each action that only the leader may take."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        times: Times | None = None,
        *,
        on_lost: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_lost` is called by the thread that renews."""
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._times, self._on_lost, self._clock = times or Times(), on_lost, clock
        self._renewed_at: float | None = None  # when the last successful renewal was started
        self._lease: Body | None = None  # as we wrote it last
        self._seen: tuple[str, str] = ("", "")  # the other holder, and its renewTime
        self._seen_at = 0.0
        self.complaint = ""  # why the lease can't be acquired or renewed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def leads(self) -> bool:
        """Whether this candidate holds the lease and renewed it recently enough to be sure."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() - renewed_at < self._times.renew_s

    @property
    def holder(self) -> str:
        """The other candidate that was seen to hold the lease, "" for none."""
        return self._seen[0]

    def acquire(self, stop: threading.Event) -> bool:
        """Wait for the lease, then renew it in a thread; False if stopped before."""
        while not stop.is_set():
            if self.try_once():
                _LOG.info("leading: acquired the lease %s/%s", self._namespace, self._name)
                self._thread.start()
                return True
            stop.wait(self._times.retry_s)
        return False

    def release(self) -> None:
        """Release the lease, so that the next leader doesn't wait for its expiry."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self.leads():
            return
        self._renewed_at = None
        try:
            lease = self._lease or self._api.get(self._path)
            if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
                spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
                self._api.replace(self._path, {**lease, "spec": spec})
                _LOG.info("released the lease %s/%s", self._namespace, self._name)
        except ApiError as error:
            _LOG.warning("the lease %s/%s could not be released: %s", self._namespace, self._name, error)

    @property
    def _path(self) -> str:
        return LEASE.path(self._namespace, self._name)

    def _renew(self) -> None:
        try:
            while not self._stop.wait(self._times.retry_s):
                if not self.try_once() and not self.leads():
                    break
        except Exception:  # noqa: BLE001 (a bug: it would stay a standby forever)
            _LOG.exception("the lease %s/%s can't be renewed", self._namespace, self._name)
        if not self._stop.is_set():
            self._renewed_at = None
            _LOG.error("lost the lease %s/%s: %s", self._namespace, self._name, self.complaint or self.holder)
            self._on_lost()

    def try_once(self) -> bool:
        """Acquire or renew the lease by one attempt; return whether this candidate holds it."""
        began = self._clock()
        try:
            if not (self._again() or self._take()):
                return False
        except (AlreadyExistsError, ConflictError):
            return False  # another was quicker
        except ApiError as error:
            if str(error) != self.complaint:
                self.complaint = str(error)
                _LOG.warning("the lease %s/%s can't be acquired: %s", self._namespace, self._name, error)
            return False
        self._renewed_at, self.complaint = began, ""
        return True

    def _again(self) -> bool:
        """Renew what we wrote last, by one request; False if someone has written since."""
        if self._lease is None:
            return False
        lease, self._lease = self._lease, None
        try:
            self._lease = self._api.replace(self._path, {**lease, "spec": self._spec(lease["spec"])})
        except (ConflictError, NotFoundError):
            return False
        return True

    def _take(self) -> bool:
        try:
            lease = self._api.get(self._path)
        except NotFoundError:
            body = {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.name,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": self._spec({}),
            }
            self._lease = self._api.create(LEASE, self._namespace, body)
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in {"", self._identity}:
            self._renewed_at = None
            if not self._is_over(spec):
                return False
        self._lease = self._api.replace(self._path, {**lease, "spec": self._spec(spec)})
        self._seen = ("", "")
        return True

    def _is_over(self, spec: Body) -> bool:
        """Whether another holder's lease has run out, by our own clock: theirs may be wrong."""
        seen = (str(spec.get("holderIdentity")), str(spec.get("renewTime")))
        if seen != self._seen:
            if seen[0] != self._seen[0]:
                _LOG.info("standby: %s holds the lease %s/%s", seen[0], self._namespace, self._name)
            self._seen, self._seen_at = seen, self._clock()
        return self._clock() - self._seen_at > float(spec.get("leaseDurationSeconds") or self._times.lease_s)

    def _spec(self, before: Body) -> Body:
        now = _now()
        ours = before.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._times.lease_s,
            "acquireTime": before.get("acquireTime") or now if ours else now,
            "renewTime": now,
            "leaseTransitions": (before.get("leaseTransitions") or 0) + (0 if ours or not before else 1),
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
