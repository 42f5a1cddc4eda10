"""How often is looked, and how long a try may take, in seconds. Pure.

An sshd that comes up soon is seen at once, and one that takes minutes costs little: pauses grow with the wait. With
many workers they are longer, as the launcher's init container may have a tenth of a CPU, and DNS is the cluster's.
"""

from __future__ import annotations

BANNER_S = 5.0  # from the connection to its first words: a hundred sshds may start on one node
CHECK_AGAIN_S = 1.0  # an answer that is older when the last worker answers is asked for again, name and all
ASK_ANYWAY_S = 30.0  # who is said not to be in DNS is looked up so often all the same
_FIRST_S = 0.05
_LONGEST_S = 1.0
_GROWTH = 1 / 32
_LOOK_UPS_A_SECOND = 300  # each is half a dozen of queries, by the search domains
_CONNECTIONS_A_SECOND = 1500
_CONNECT_FIRST_S, _CONNECT_LONGEST_S = 0.5, 4.0
_ADDRESS_FIRST_S, _ADDRESS_LONGEST_S = 2.0, 10.0


def pause_s(waited_s: float, waiting: int, *, has_address: bool) -> float:
    """Return how long to wait before the next look at a worker that has lacked the same for `waited_s`.

    `waiting`: how many workers are waited for. `has_address`: the look is a connection, and else a look-up.
    """
    rate = _CONNECTIONS_A_SECOND if has_address else _LOOK_UPS_A_SECOND
    return max(min(max(_FIRST_S, waited_s * _GROWTH), _LONGEST_S), waiting / rate)


def connect_s(waited_s: float) -> float:
    """Return how long a connection may take: short at first, as a new pod's address may not be routed yet.

    The kernel itself would ask again after a second, and then ever more rarely.
    """
    return min(max(_CONNECT_FIRST_S, waited_s / 4), _CONNECT_LONGEST_S)


def check_again_s(workers: int) -> float:
    """Return how old an answer may be when the last of so many workers answers: names come and go while pods start.

    Endpoints of a headless Service are rewritten then, and a name that was there a second ago may be missing for some.
    All can be looked up once more in half of that time.
    """
    return max(CHECK_AGAIN_S, 2 * workers / _LOOK_UPS_A_SECOND)


def address_s(waited_s: float, waiting: int) -> float:
    """Return how old an address may be that nobody has answered at: a replaced pod has another."""
    return max(min(max(_ADDRESS_FIRST_S, waited_s / 8), _ADDRESS_LONGEST_S), waiting / _LOOK_UPS_A_SECOND)
