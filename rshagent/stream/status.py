"""What the API server's answers mean: the exit code of a command, or a failure and whether to try again.

Pure.
"""

from __future__ import annotations

import functools
import json
from typing import NamedTuple

from agents.common.text import one_line

# As ssh does: the launch, or its end, could not be had. A command's own 255 looks the same.
AGENT_FAILED = 255
NO_SHELL = 127

# A token is read again immediately, so a second 401 is final. An API server that has just started forbids requests
# that its caches do not allow yet. A pod or container that is not there may be restarting.
_ABSENT_S = 30.0
_PATIENCE_S = {401: 3.0, 403: 5.0, 404: _ABSENT_S}
_RETRY_AFTER_MAX_S = 60.0  # a request per minute is no load, and no wait may last for hours

# A kubelet that has just started knows no pods yet (Kubernetes' pkg/kubelet/server). The API server says of a pod that
# is not there: pods "x" not found.
_KUBELET_STARTS = "pod does not exist"

# The runtime's words for an executable that the image does not have (containerd, CRI-O, runc, crun).
_NO_EXECUTABLE = ("executable file not found", "no such file or directory", "stat /bin/sh", "command not found")


class Exited(NamedTuple):
    """The command ended with `code`, as the container runtime reported it (128+n if signal n ended it)."""

    code: int


class Failure(NamedTuple):
    """A launch that did not succeed for a reason that is not the command's.

    `message` is one line for people; `retryable`: the same request may succeed later; `retry_after_s`: the server's
    Retry-After; `exit_code`: for when there is no retry left; `is_outage`: the API server itself could not be reached.
    """

    message: str
    retryable: bool
    retry_after_s: float | None = None
    http_status: int = 0
    exit_code: int = AGENT_FAILED
    is_outage: bool = False

    @property
    def containers(self) -> tuple[str, ...]:
        """The containers of "a container name must be specified for pod P, choose one of: [a b]…", else none."""
        listed, end, _ = self.message.partition("choose one of: [")[2].partition("]")
        return tuple(listed.split()) if end and self.http_status == 400 else ()

    @property
    def patience_s(self) -> float | None:
        """How long this is worth trying again, in seconds; None: as long as anything is."""
        return _ABSENT_S if "container not found" in self.message else _PATIENCE_S.get(self.http_status)


@functools.lru_cache(8)  # most commands end in one of a few ways
def from_error_channel(data: bytes) -> Exited | Failure:
    """Read what came on the error channel: a `Status` in JSON."""
    status = _load(data)
    if status is None:
        text = one_line(data)
        return Failure(f"the end of the command can't be read: {text or 'empty status'}", retryable=False)
    if status.get("status") == "Success":
        return Exited(0)
    message = one_line(str(status.get("message") or ""))
    code = _exit_code(status)
    if code is not None:
        # A runtime that finds no shell reports it as text, with an exit code of its own choice (126 to 128).
        if 126 <= code <= 128 and _has_no_shell(message):
            return _no_shell(message)
        return Exited(code)
    if _has_no_shell(message):
        return _no_shell(message)
    return Failure(message or "the API server gave a failure without a message", retryable=True)


def is_about_websocket(status: int, body: bytes) -> bool:
    """Say whether SPDY may be granted what a WebSocket was refused: the verb get, the upgrade, or version 5.

    kubectl asks again after any refusal. A POST differs from a GET in its verb alone, and one more request that can
    only fail would delay the retry of all the others. A server that does not know version 5 refuses the handshake by
    a 403 without a body (golang.org/x/net/websocket).
    """
    if status == 403:
        return not body or (b"cannot get" in body and b"pods/exec" in body)
    if status == 400:  # "Upgrade request required", "unable to upgrade": a proxy took the header out
        return b"pgrade" in body
    return status in (405, 426, 501)


def from_http(
    status: int, body: bytes, retry_after: str | None, *, what: str, is_second: bool = False, forbidden: str = ""
) -> Failure:
    """Read a refusal that came as an HTTP answer. `what` names the request in words ("exec in worker-3").

    `is_second`: the same exec was refused by WebSocket before. `forbidden`: the message for a 403 to a request that is
    no exec, with {} for what the server said.
    """
    loaded = _load(body)
    text = one_line(str(loaded.get("message") or "") if loaded else body)
    said = f"{what}: the API server answered {status}" + (f": {text}" if text else "")
    if status == 403:
        rule = exec_rule(text, is_second=is_second)
        said = forbidden.format(text) if forbidden else f"{what} is forbidden: {text}. {rule}"
    elif status == 401:
        said = f"{what}: the API server does not accept the token or certificate (401)"
    if status == 404 and text == _KUBELET_STARTS:
        status = 503
    retryable = status in (401, 403, 404, 408, 409, 429) or status >= 500
    wished_s = None if status in (400, 401, 403) else _seconds(retry_after)  # these are soon meant as they are said
    return Failure(said, retryable=retryable, retry_after_s=wished_s, http_status=status)


def exec_rule(message: str, *, is_second: bool = False) -> str:
    """Return the Role rule that grants what a 403 says is missing (both verbs: Kubernetes 1.35 checks both)."""
    # A policy or a webhook refuses in words of its own.
    verb = message.partition("cannot ")[2].partition(" ")[0] if "pods/exec" in message else ""
    missing = f"The verb {verb} is missing; a" if verb.isalpha() else "A"
    if is_second and verb == "create":
        missing = "The verbs get and create are both missing (create alone suffices, by SPDY); a"
    return (
        f'{missing} Role rule that grants it: {{apiGroups: [""], resources: ["pods/exec"], verbs: ["get", "create"]}}'
    )


def _load(data: bytes) -> dict[str, object] | None:
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _exit_code(status: dict[str, object]) -> int | None:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            try:
                code = int(str(cause.get("message")))
            except ValueError:
                return None
            # A failure's code is not 0, and what does not fit into one must not become 0.
            return code if 0 < code <= 255 else AGENT_FAILED
    return None


def _has_no_shell(message: str) -> bool:
    return "/bin/sh" in message and any(words in message for words in _NO_EXECUTABLE)


def _no_shell(message: str) -> Failure:
    text = f"the worker's image has no /bin/sh, which starting a command needs: {message}"
    return Failure(text, retryable=False, exit_code=NO_SHELL)


def _seconds(retry_after: str | None) -> float | None:
    """Return Retry-After's seconds (RFC 9110 §10.2.3); its date form, which Kubernetes never uses, is ignored."""
    if retry_after is None or not retry_after.isdecimal():
        return None
    return min(float(retry_after), _RETRY_AFTER_MAX_S)
