"""What can go wrong for a user of the client. Each message is one line: what failed, what it means, what to do."""

from __future__ import annotations

from agents.common.text import printable
from agents.kube.errors import ApiError

_NO_RIGHT = (
    " cannot "  # apiserver, endpoints/handlers/responsewriters/errors.go: User "x" cannot list resource "pods" …
)
_MESSAGE_MAX = 1000  # bytes: of a job with many faults the API server names each


class ClientError(Exception):
    """A request failed. `code` is HTTP's, 0 where there was no answer."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(printable(message, _MESSAGE_MAX))
        self.code = code


class AccessError(ClientError):
    """There is no usable kubeconfig, the API server does not answer, or it does not accept the credentials."""


class NotFoundError(ClientError):
    """There is no such job, pod or tag of a rank in its output, or the cluster has no MPIJobs at all."""


class ForbiddenError(ClientError):
    """The user has no permission; the message names the verb and the resource."""


class RefusedError(ClientError):
    """The API server rejects the request: the object is invalid, exists already, or exceeds a quota."""


class ManifestError(ClientError):
    """The manifest is not a valid job."""


class WaitTimeoutError(ClientError):
    """The job was not there, or has not ended, within the time given."""


def from_api(error: ApiError) -> ClientError:
    """Return what a failed request means for a user."""
    code, message = error.code, str(error)
    if code < 400:  # no answer, or none of an API server
        return AccessError(message)
    if code == 401:
        return AccessError(f"the API server does not accept these credentials ({message}): log in again", code)
    if code == 403 and _NO_RIGHT in message:  # admission refuses by the same code: quotas, Pod Security, webhooks
        return ForbiddenError(f"{message}; ask whoever manages the cluster for this right", code)
    if code in {404, 410}:
        return NotFoundError(message, code)
    if code >= 500 or code == 429:
        return AccessError(f"the API server failed: {message}", code)
    return RefusedError(message, code)
