"""One wanted worker: what is known of its sshd, why it is not ready, and when to probe it again. Pure.

An sshd that starts soon is seen soon, and one that takes minutes costs little: probe intervals grow with the wait.
With many workers they are longer, as the launcher's init container may have a tenth of a CPU, and DNS is shared.

A name that doesn't exist and a port that refuses connections may be a pod that still pulls its image, for as long as
that takes. Anything else is recoverable: something answers that is no sshd, or packets get lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.common.not_ready import NotReady, Tolerance
from agents.common.ssh_probe import Outcome, Result
from delivery.sshd.dns import Address, Found

CHECK_AGAIN_S = 1.0  # an answer that is older when the last worker answers is checked again, DNS included
ASK_ANYWAY_S = 30.0  # how often a name is looked up although the probes say that it does not exist
_FIRST_S = 0.05
_LONGEST_S = 1.0
_GROWTH = 1 / 32
_LOOK_UPS_A_SECOND = 300  # each is some six queries, because of the search domains
_CONNECTIONS_A_SECOND = 1500
_CONNECT_FIRST_S, _CONNECT_LONGEST_S = 0.5, 4.0
_ADDRESS_FIRST_S, _ADDRESS_LONGEST_S = 2.0, 10.0


def check_again_s(workers: int) -> float:
    """Return how old an answer may be when the last of so many workers answers: names come and go while pods start.

    Endpoints of a headless Service are rewritten then, and a name that was there a second ago may be missing for some.
    All can be looked up once more in half of that time.
    """
    return max(CHECK_AGAIN_S, 2 * workers / _LOOK_UPS_A_SECOND)


SOON_S = 5.0  # a name appears within this time if nothing is wrong
LONG_S = 60.0  # after this a reason says where to look for the cause
_LOOK = "its image, its init containers or its sshd: see `kubectl describe pod` and `kubectl logs`"
_PORT_HINT = "set the job's ssh port, or free that one in the worker's image"
_HINTS = {
    Outcome.UNREACHABLE: "see whether its node is up",
    Outcome.TIMED_OUT: "see whether its node is up, and whether a NetworkPolicy forbids it",
    Outcome.SILENT: _PORT_HINT,
    Outcome.CLOSED: "see the worker's log: its sshd, or a proxy before it, turns connections away",
    Outcome.NOT_SSH: _PORT_HINT,
    Outcome.BUSY: "raise MaxStartups in its sshd_config, or set PerSourcePenalties to no",
}


def no_name(waited_s: float, *, was_there: bool) -> NotReady:
    """Return why a worker without an address in DNS is not ready; `was_there`: it had one before."""
    if not was_there:
        detail = "its pod has no address, or its Service does not select it: see `kubectl describe pod`"
        return NotReady("name", "not in DNS yet", detail if waited_s >= LONG_S else "")
    hint = "is the job being deleted, or its operator down?"
    return NotReady("gone", "gone from DNS", "", Tolerance.REPLACEMENT, hint, is_gone=True)


def no_lookup(reason: str, waited_s: float) -> NotReady:
    """Return why a worker is not ready if DNS gives no answer for its name.

    That is normal for a pod that is still to start: a DNS that serves the cluster only has no answer for missing names.
    """
    return NotReady("name", "not in DNS yet", f"DNS gives no answer ({reason})" if waited_s >= SOON_S else "")


def why_not_ready(answer: Result, ports: Sequence[int], waited_s: float) -> NotReady | None:
    """Return why a worker is not ready, by the best result of its `ports`; None if an sshd answered."""
    if answer.outcome is Outcome.READY:
        return None
    if answer.outcome is Outcome.REFUSED:
        return NotReady("refused", f"not listening on {named_ports(ports)} yet", _LOOK if waited_s >= LONG_S else "")
    message, detail = {
        Outcome.UNREACHABLE: ("not reachable", answer.text),
        Outcome.TIMED_OUT: (f"not answering on {named_ports(ports)}", "connections time out"),
        Outcome.SILENT: (f"silent on port {answer.port}", "something other than sshd listens there, or sshd hangs"),
        Outcome.CLOSED: (f"closing connections to port {answer.port}", "without an ssh banner"),
        Outcome.NOT_SSH: (f"no sshd on port {answer.port}", f'what listens there says "{answer.text}"'),
        Outcome.BUSY: (f"turning connections to port {answer.port} away", f'sshd says "{answer.text}"'),
    }[answer.outcome]
    kind = "lost" if answer.outcome in (Outcome.UNREACHABLE, Outcome.TIMED_OUT) else "no sshd"
    return NotReady(kind, message, detail, Tolerance.GRACE, _HINTS[answer.outcome])


def named_ports(ports: Sequence[int]) -> str:
    """Return `port 22`, or `ports 22 and 2222`."""
    if len(ports) == 1:
        return f"port {ports[0]}"
    return f"ports {', '.join(str(port) for port in ports[:-1])} and {ports[-1]}"


_NEVER = float("-inf")
_MOVED = frozenset({Outcome.TIMED_OUT, Outcome.UNREACHABLE})  # another pod, with another address, may have replaced it


class Worker:
    """A host of the hostfile. `now` is in seconds of any one monotonic clock; `waiting`: how many are not ready."""

    def __init__(self, host: str, now: float) -> None:
        self.host = host
        self.name = host  # as people call it
        self.addresses: tuple[Address, ...] = ()
        self.port = 0  # where its sshd answered
        self.is_wanted = True
        self.is_busy = False  # a probe is running, or is queued
        self._is_doubted = False  # look its name up again, whatever is known of it
        self._looked_up_at = self._answered_at = _NEVER
        self._asked_at = now  # for its address, whether or not there was one
        self._answer: Result | None = None
        self._kind = ""  # of its not-ready reason
        self._since = now  # when that reason began

    @property
    def mark(self) -> str:
        """Identifies the pod: another pod in its place has another."""
        return " ".join(sorted(address.host for address in self.addresses))

    def wants_look_up(self, now: float, waiting: int) -> bool:
        """Whether its address is unknown, or may have changed."""
        has_moved = self._answer is not None and self._answer.outcome in _MOVED
        longest_s = min(max(_ADDRESS_FIRST_S, (now - self._since) / 8), _ADDRESS_LONGEST_S)  # a new pod has another one
        is_old = now - self._looked_up_at >= max(longest_s, waiting / _LOOK_UPS_A_SECOND)
        return not self.addresses or has_moved or is_old or self._is_doubted

    def wants_address(self, now: float) -> bool:
        """Whether to look up its address, and not only probe whether the name exists (`dns`)."""
        return (bool(self.addresses) and not self._is_doubted) or now - self._asked_at >= ASK_ANYWAY_S

    def is_missing(self, now: float) -> NotReady:
        """Note that its name does not exist."""
        self.addresses, self._is_doubted = (), False
        return no_name(now - self._since, was_there=self._looked_up_at > _NEVER)

    def found(self, found: Found, now: float) -> NotReady | None:
        """Take a lookup's result; None: there is an address to connect to, maybe the previous one."""
        self._asked_at, self._is_doubted = now, False
        if found.addresses or not found.error:
            self.addresses = found.addresses
        if self.addresses:
            self._looked_up_at = now
            return None
        if found.error:
            return no_lookup(found.error, now - self._since)
        return self.is_missing(now)

    def connect_s(self, now: float) -> float:
        """Return how long a connection may take: short at first, as a new pod's address may not be routed yet.

        The kernel itself would try again after a second, and then at growing intervals.
        """
        return min(max(_CONNECT_FIRST_S, (now - self._since) / 4), _CONNECT_LONGEST_S)

    def answered(self, answer: Result, ports: Sequence[int], now: float) -> NotReady | None:
        """Take a probe's result; None: an sshd is there."""
        self._answer = answer
        if answer.outcome is Outcome.READY:
            self.port, self._answered_at = answer.port, now
        return why_not_ready(answer, ports, now - self._since)

    def settle(self, reason: NotReady | None, now: float) -> None:
        """Take its not-ready reason by the last probe."""
        kind = reason.kind if reason else ""
        if kind != self._kind:
            self._kind, self._since = kind, now

    def pause_s(self, now: float, waiting: int) -> float:
        """Return how long to wait before the next probe: a connection, or a DNS lookup where there is no address."""
        rate = _CONNECTIONS_A_SECOND if self.addresses else _LOOK_UPS_A_SECOND
        return max(min(max(_FIRST_S, (now - self._since) * _GROWTH), _LONGEST_S), waiting / rate)

    def is_doubted(self, now: float, workers: int) -> bool:
        """Whether it answered so long ago that its sshd or its name may be gone: then it is looked up again."""
        self._is_doubted = now - self._answered_at >= check_again_s(workers)
        return self._is_doubted
