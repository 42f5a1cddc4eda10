"""Ports of this machine that a test may give away."""

import secrets
import socket

_LOWEST, _HIGHEST = 10_000, 30_000
_GIVEN_TO_ANYBODY = "/proc/sys/net/ipv4/ip_local_port_range"


def free_port() -> int:
    """Return a port that is free at every address.

    Not one that the kernel gives to whoever connects somewhere: those may be taken before their test comes to listen.
    """
    with open(_GIVEN_TO_ANYBODY, encoding="ascii") as file:
        lowest_given = int(file.read().split()[0])
    ports = range(_LOWEST, min(_HIGHEST, lowest_given)) or range(_LOWEST, _HIGHEST)
    while True:
        try:
            with socket.create_server(("", secrets.choice(ports))) as reserved:
                return int(reserved.getsockname()[1])
        except OSError:
            continue
