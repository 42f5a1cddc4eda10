"""Status objects with the words of the real API server, kubelet and containerd. Pure.

Sources: apimachinery `pkg/api/errors`, apiserver `pkg/util/proxy/streamtranslator.go`, kubelet
`pkg/cri/streaming/remotecommand/exec.go`, client-go `tools/remotecommand/v4.go`, containerd `internal/cri`.
"""

from __future__ import annotations

import errno
import os
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
    406: "NotAcceptable",
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


def forbidden(user: str, verb: str, resource: str, name: str, namespace: str, group: str = "") -> Status:
    """RBAC's refusal."""
    kind, _, _subresource = resource.partition("/")
    named = f"{kind}.{group}" if group else kind
    named = f'{named} "{name}"' if name else named
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = f'{named} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {where}'
    details = {"name": name, "kind": kind} if name else {"kind": kind}
    return failure(403, message, details=details)


def not_found(kind: str, name: str) -> Status:
    """No such object."""
    return failure(404, f'{kind} "{name}" not found', details={"name": name, "kind": kind})


def exists(key: str, name: str) -> Status:
    """There is an object of that name."""
    return failure(409, f'{key} "{name}" already exists', details={"name": name, "kind": key})


def conflict(key: str, name: str, words: str) -> Status:
    """The write was meant for another state of the object."""
    message = f'Operation cannot be fulfilled on {key} "{name}": {words}'
    return failure(409, message, reason="Conflict", details={"name": name, "kind": key})


def invalid(kind: str, group: str, name: str, *problems: str) -> Status:
    """The object is none that can be. A problem is "FIELD: what is wrong"; kubectl shows the causes alone."""
    words = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    message = f'{f"{kind}.{group}" if group else kind} "{name}" is invalid: {words}'
    parts = [one.partition(": ") for one in problems]
    causes = [{"reason": "FieldValueInvalid", "field": field, "message": told} for field, _, told in parts]
    return failure(422, message, reason="Invalid", details={"name": name, "kind": kind, "causes": causes})


def expired(message: str = "too old resource version") -> Status:
    """410 Gone: list again."""
    return failure(410, message)


def success() -> Status:
    """How an exec stream ends with exit code 0."""
    return {"metadata": {}, "status": "Success"}


def exit_code(code: int) -> Status:
    """How an exec stream ends with another exit code: the API server words kubelet's status itself."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
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


def not_started(command: Sequence[str], error: int, exec_id: str) -> Status:
    """How the exec of a program that can't be started (errno `error`) ends.

    containerd gives no exit code at all (cri `execInContainer`), and the API server wraps its words once more.
    """
    message = (
        f'error executing command in container: failed to exec in container: failed to start exec "{exec_id}": '
        "OCI runtime exec failed: exec failed: unable to start container process: "
        f"{runtime_error(command[0], error)}: unknown"
    )
    return internal_error(f"Internal error occurred: {message}")


def runtime_error(name: str, error: int) -> str:
    """What runc says when it can't start a program (Go's os/exec, libcontainer)."""
    if error == errno.ENOENT:
        if "/" in name:
            return f'exec: "{name}": stat {name}: no such file or directory'
        return f'exec: "{name}": executable file not found in $PATH'
    if error in {errno.EACCES, errno.EISDIR, errno.EPERM}:
        return f'exec: "{name}": {os.strerror(error).lower()}'
    return f"exec {name}: {os.strerror(error).lower()}"
