"""A command in a pod's container by the exec API: its exit code and the beginning of its output. No stdin.

Source: kubernetes, staging/src/k8s.io/apimachinery/pkg/util/remotecommand: a message's first byte is its channel; the
last one, on channel 3, is a Status.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import urllib3
from websocket import (
    ABNF,
    WebSocket,
    WebSocketBadStatusException,
    WebSocketException,
    WebSocketTimeoutException,
    create_connection,
)

from agents.client.connection import Connection
from agents.client.errors import AccessError, RefusedError, WaitTimeoutError
from agents.job.json_object import mappings, part
from agents.kube.decode import decoded
from agents.kube.errors import UnavailableError, from_status
from agents.kube.kinds import POD

if TYPE_CHECKING:
    from kubernetes.client import Configuration

_PROTOCOLS = ["v5.channel.k8s.io"]
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_STATUS_MAX = 65536  # bytes


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def run(
    connection: Connection,
    namespace: str,
    pod: str,
    container: str,
    argv: Sequence[str],
    *,
    timeout_s: float,
    most: int,
) -> Done:
    """Run a command in a container; return its exit code and at most `most` bytes of stdout, and of stderr.

    Raises WaitTimeoutError (the command may still run), RefusedError if it can't be started, AccessError if its stream
    is lost, ForbiddenError without the right: `get`, and from Kubernetes 1.35 `create`, on `pods/exec`.
    """
    deadline = time.monotonic() + timeout_s
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", word) for word in argv)]
    path = f"{POD.path(namespace, pod, 'exec')}?{urlencode(query)}"
    found = {_STDOUT: b"", _STDERR: b"", _STATUS: b""}
    limits = {_STDOUT: most, _STDERR: most, _STATUS: _STATUS_MAX}
    try:
        stream = _open(connection, path, timeout_s)
        try:
            for channel, data in _messages(stream, deadline):
                if channel in found:
                    found[channel] += data[: limits[channel] - len(found[channel])]
        finally:
            stream.shutdown()  # type: ignore[no-untyped-call]
    except WebSocketTimeoutException:
        raise WaitTimeoutError(f"{pod}: no end of {argv[0]} within {timeout_s:g} s") from None
    except (WebSocketException, OSError, UnavailableError) as error:
        raise connection.no_answer(error) from error
    return Done(_exit_code(pod, found[_STATUS]), found[_STDOUT], found[_STDERR])


def _open(connection: Connection, path: str, timeout_s: float) -> WebSocket:
    access = connection.access
    url = f"{access.host.replace('http', 'ws', 1)}{path}"  # wss for https
    options = _options(access.configuration)
    try:
        return create_connection(  # by a redirection another server would get the token
            url, timeout_s, header=connection.headers(), subprotocols=_PROTOCOLS, redirect_limit=0, **options
        )
    except WebSocketBadStatusException as error:
        raise connection.failure(from_status(error.status_code, decoded(error.resp_body or b""))) from None


def _options(given: Configuration) -> dict[str, Any]:
    """TLS and proxy as options of websocket-client."""
    tls = {
        "cert_reqs": ssl.CERT_REQUIRED if given.verify_ssl else ssl.CERT_NONE,
        "check_hostname": given.verify_ssl and given.assert_hostname is not False,
        "ca_certs": given.ssl_ca_cert,
        "certfile": given.cert_file,
        "keyfile": given.key_file,
        "server_hostname": given.tls_server_name,
    }
    options: dict[str, Any] = {"sslopt": {name: value for name, value in tls.items() if value is not None}}
    if given.proxy:
        proxy = urllib3.util.parse_url(given.proxy)
        options |= {"http_proxy_host": proxy.host, "http_proxy_port": proxy.port, "proxy_type": "http"}
        options["http_no_proxy"] = (given.no_proxy or "").split(",")
        if proxy.auth:
            options["http_proxy_auth"] = tuple(proxy.auth.partition(":")[::2])
    return options


def _messages(stream: WebSocket, deadline: float) -> Iterator[tuple[int, bytes]]:
    """Give channels and data until the stream ends. Raises WebSocketTimeoutException after the deadline."""
    while (left_s := deadline - time.monotonic()) > 0:
        stream.settimeout(left_s)
        kind, data = stream.recv_data()
        if kind == ABNF.OPCODE_CLOSE:
            return
        if data:
            yield data[0], data[1:]
    raise WebSocketTimeoutException


def _exit_code(pod: str, status: bytes) -> int:
    """Return the exit code that a Status names. Raises RefusedError if the command was not started."""
    found = decoded(status)
    if not isinstance(found, dict):
        raise AccessError(f"{pod}: the exec stream was lost: it ended without an exit code")
    if found.get("status") == "Success":
        return 0
    for cause in mappings(part(found, "details").get("causes")):
        if cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
            return int(cause["message"])
    raise RefusedError(f"{pod}: {found.get('message') or 'the command could not be started'}")
