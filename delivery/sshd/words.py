"""What a worker lacks whose sshd doesn't answer, in the words of `delivery.lack`, and how long that is worth waiting.

A name that isn't there and a port that nobody listens on may be a pod that still pulls its image, for as long as that
takes. Anything else is trouble that may heal: something answers that is no sshd, or packets get lost. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delivery import exits
from delivery.lack import Lack, Patience
from delivery.sshd.answer import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from delivery.sshd.answer import Answer

SOON_S = 5.0  # a name takes so long at most where nothing is wrong
LONG_S = 60.0  # who waits for longer is told where to look
_LOOK = "its image, its init containers or its sshd: see `kubectl describe pod` and `kubectl logs`"
_PORT_HINT = "set the job's ssh port, or free that one in the worker's image"
_HINTS = {
    Kind.UNREACHABLE: "see whether its node is up",
    Kind.TIMED_OUT: "see whether its node is up, and whether a NetworkPolicy forbids it",
    Kind.SILENT: _PORT_HINT,
    Kind.CLOSED: "see the worker's log: its sshd, or a proxy before it, turns connections away",
    Kind.STRANGE: _PORT_HINT,
    Kind.TURNED_AWAY: "raise MaxStartups in its sshd_config, or set PerSourcePenalties to no",
}


def no_name(waited_s: float, *, was_there: bool) -> Lack:
    """Return what a worker lacks that has no address in DNS; `was_there`: it had one before."""
    if not was_there:
        detail = "its pod has no address, or its Service selects it not: see `kubectl describe pod`"
        return Lack("name", "not in DNS yet", detail if waited_s >= LONG_S else "")
    hint = "is the job being deleted, or its operator down?"
    return Lack("gone", "gone from DNS", "", Patience.REPLACEMENT, exits.GONE, hint)


def no_lookup(reason: str, waited_s: float) -> Lack:
    """Return what a worker lacks of whose name DNS says nothing.

    That alone is no trouble: where DNS serves the cluster only, it says so of all names that are not there.
    """
    return Lack("name", "not in DNS yet", f"DNS gives no answer ({reason})" if waited_s >= SOON_S else "")


def lack_of(answer: Answer, ports: Sequence[int], waited_s: float) -> Lack | None:
    """Return what a worker lacks by the best answer of its `ports`, None if an sshd answered."""
    if answer.kind is Kind.READY:
        return None
    if answer.kind is Kind.REFUSED:
        return Lack("refused", f"not listening on {named(ports)} yet", _LOOK if waited_s >= LONG_S else "")
    words, detail = {
        Kind.UNREACHABLE: ("not reachable", answer.said),
        Kind.TIMED_OUT: (f"not answering on {named(ports)}", "connections time out"),
        Kind.SILENT: (f"silent on port {answer.port}", "something else than sshd listens there, or sshd hangs"),
        Kind.CLOSED: (f"closing connections to port {answer.port}", "without an ssh banner"),
        Kind.STRANGE: (f"no sshd on port {answer.port}", f'what listens there says "{answer.said}"'),
        Kind.TURNED_AWAY: (f"turning connections to port {answer.port} away", f'sshd says "{answer.said}"'),
    }[answer.kind]
    kind = "lost" if answer.kind in (Kind.UNREACHABLE, Kind.TIMED_OUT) else "no sshd"
    return Lack(kind, words, detail, Patience.GRACE, exits.GRACE_OVER, _HINTS[answer.kind])


def named(ports: Sequence[int]) -> str:
    """Return `port 22`, or `ports 22 and 2222`."""
    if len(ports) == 1:
        return f"port {ports[0]}"
    return f"ports {', '.join(str(port) for port in ports[:-1])} and {ports[-1]}"
