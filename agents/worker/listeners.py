"""The sockets at which the worker agent answers."""

from __future__ import annotations

import contextlib
import os
import socket
import stat


class ServeError(Exception):
    """A port or a socket can't be served: one line."""


def at_port(port: int) -> socket.socket:
    """Listen at all addresses of the pod: the kubelet asks at the pod's own. Raises ServeError."""
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise ServeError(f"port {port} can't be served: {os.strerror(error.errno or 0)} (MPI_WORKER_PORT)") from None


def at_path(path: str) -> socket.socket:
    """Listen at a Unix socket that every uid of the pod may connect to, in the place of one that was left.

    Raises FileNotFoundError where its folder is not there yet, else ServeError.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove(path)
        listener.bind(path)
        os.chmod(path, 0o666)  # noqa: S103 (what it tells, the port tells nearly as well)
        listener.listen()
    except FileNotFoundError:
        listener.close()
        raise
    except OSError as error:
        listener.close()
        raise ServeError(f"the socket {path} can't be served: {error.strerror or error} (MPI_WORKER_SOCKET)") from None
    return listener


def remove(path: str) -> None:
    """Take a socket away; other files stay."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
