"""Ports of this machine that a test may give away."""

import socket


def free_port() -> int:
    """Return a port that is free at every address."""
    with socket.create_server(("", 0)) as reserved:
        return int(reserved.getsockname()[1])
