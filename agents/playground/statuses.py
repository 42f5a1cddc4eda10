"""Status objects with the words of the real API server, kubelet and containerd. Pure.

Sources: apimachinery `pkg/api/errors`, apiserver `pkg/util/proxy/streamtranslator.go`, kubelet
`pkg/cri/streaming/remotecommand/exec.go`, client-go `tools/remotecommand/v4.go`, containerd `internal/cri`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Status = dict[str, Any]

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "AlreadyExists",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def failure(code: int, message: str, **more: Any) -> Status:
    """The Status that the API server answers an HTTP error with."""
    status: Status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if code in _REASONS:
        status["reason"] = _REASONS[code]
    return {**status, **more, "code": code}


def forbidden(user: str, verb: str, resource: str, name: str, namespace: str) -> Status:
    """RBAC's refusal."""
    kind, _, _subresource = resource.partition("/")
    named = f'{kind} "{name}"' if name else kind
    message = (
        f'{named} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "" '
        f'in the namespace "{namespace}"'
    )
    details = {"name": name, "kind": kind} if name else {"kind": kind}
    return failure(403, message, details=details)


def not_found(kind: str, name: str) -> Status:
    """No such object."""
    return failure(404, f'{kind} "{name}" not found', details={"name": name, "kind": kind})


def expired(message: str = "too old resource version") -> Status:
    """410 Gone: list again."""
    return failure(410, message)


def success() -> Status:
    """How an exec stream ends with exit code 0."""
    return {"metadata": {}, "status": "Success"}


def exit_code(code: int, command: Sequence[str], *, v5: bool) -> Status:
    """How an exec stream ends with another exit code.

    With v5 the API server has read kubelet's status and words it anew; with v4 it passes the runtime's words on.
    """
    if v5:
        words = f"command terminated with exit code {code}"
    else:
        words = f"error executing command [{' '.join(command)}], exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {words}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def internal_error(message: str) -> Status:
    """How an exec stream ends without an exit code (apierrors.NewInternalError)."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def not_started(exec_id: str, runtime_error: str, *, v5: bool) -> Status:
    """The runtime could not start the command. With v5 the API server wraps kubelet's status once more."""
    message = (
        f'error executing command in container: failed to exec in container: failed to start exec "{exec_id}": '
        f"OCI runtime exec failed: exec failed: unable to start container process: {runtime_error}: unknown"
    )
    return internal_error(f"Internal error occurred: {message}" if v5 else message)
