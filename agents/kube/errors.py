"""The errors of API requests. Pure."""

from __future__ import annotations

_MESSAGE_MAX = 8192  # characters; of a template with 20,000 faults the API server names each, with what is there
_TOO_LARGE = ("request is too large", "larger than max")  # etcd's, and its client's, for an object over 1.5 or 2 MiB
_LONGEST_RETRY_AFTER_S = 60.0  # a proxy under maintenance names hours: nothing would be watched meanwhile


class ApiError(Exception):
    """A request that failed. `code` is HTTP's, 0 where there was no answer; the message is the API server's."""

    def __init__(self, message: str, code: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason  # of the Status object, as AlreadyExists
        self.retry_after_s = retry_after_s


class NotFoundError(ApiError):
    """There is no such object, namespace or kind."""


class AlreadyExistsError(ApiError):
    """Another object has the name."""


class ConflictError(ApiError):
    """The object is no longer the one that the request was made for."""


class GoneError(ApiError):
    """The resourceVersion or the page token is too old: list again."""


class RejectedError(ApiError):
    """The API server rejects it: forbidden, invalid, over a quota. A retry may not help."""


class TooManyError(ApiError):
    """The API server asks to come back later (`retry_after_s`)."""


class UnavailableError(ApiError):
    """No answer, or none that says anything about the request: it may or may not have been carried out."""


def from_status(code: int, status: object, retry_after: str | None = None) -> ApiError:
    """Return the error that an answer is; `status` is its body (a Status object as a rule)."""
    fields = status if isinstance(status, dict) else {}
    message, reason = str(fields.get("message") or f"HTTP {code}"), str(fields.get("reason") or "")
    message = message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"
    is_given = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
    retry_after_s = min(float(retry_after or 0), _LONGEST_RETRY_AFTER_S) if is_given else None
    if code >= 500 and any(text in message for text in _TOO_LARGE):
        return RejectedError(message, code, reason)
    return _type(code, reason, retry_after_s)(message, code, reason, retry_after_s)


def _type(code: int, reason: str, retry_after_s: float | None) -> type[ApiError]:
    if code == 409:
        return AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    if code == 429 or (code >= 500 and retry_after_s is not None):
        return TooManyError
    if code >= 500 or code in {401, 408}:  # 401: a token that is being renewed
        return UnavailableError
    return {404: NotFoundError, 410: GoneError}.get(code, RejectedError)
