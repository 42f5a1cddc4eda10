"""Requests to the API server: plain dicts in and out, typed errors.

The `kubernetes` package gives configuration, TLS and authentication (`access`); its typed and dynamic clients are not
used: they make models or deep copies of every object, which costs more than the request itself, and know only some
versions of some kinds.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

from agents.job.json_object import Body, mappings, part
from agents.kube.decode import decode_list, decoded
from agents.kube.errors import ApiError, UnavailableError, from_status
from agents.kube.kinds import Kind

if TYPE_CHECKING:  # the `kubernetes` package takes long
    from agents.kube.access import Access

_CONNECT_S = 10.0
_WATCH_SLACK_S = 30.0  # how long to wait for a silent watch after its own timeout
_READ_BYTES = 65536
_MEDIA = {"PATCH": "application/merge-patch+json"}
_ANY = "application/json, */*"  # logs are text, and an exec that accepts JSON alone is answered with 406
_PARTIAL = "application/json;as={};g=meta.k8s.io;v=v1"  # metadata alone; a server that can't do that answers 406


class Api:
    """One API server; safe to be used by many threads."""

    def __init__(
        self,
        access: Access,
        *,
        agent: str,
        manager: str,
        timeout_s: float = 30.0,
        page: int = 50,
        is_whole: bool = False,
        answered: Callable[[str, str], object] = lambda _verb, _code: None,
    ) -> None:
        """`agent`: the name in requests. `manager`: of the fields written. `timeout_s`: for each request but a watch.

        `page`: objects of a list at a time, each of up to 1.5 MiB: limits the API server's work. `answered` is called
        with verb and code of each request; code "0": no answer. `is_whole`: of long objects their managedFields, too.
        """
        self.access = access
        self._headers = {"Accept": _ANY, "User-Agent": agent}
        self._manager, self._read_s, self._page, self._answered = manager, timeout_s, page, answered
        self._is_whole = is_whole

    def failure(self, error: ApiError) -> Exception:
        """Return what is raised for a failed request."""
        return error

    def headers(self) -> dict[str, str]:
        """Return the headers that each request has. Raises UnavailableError."""
        return {**self._headers, **self.access.headers()}

    def get(self, path: str, **query: str) -> Body:
        """Return what is there. Raises ApiError, as all requests do."""
        return self._request("get", "GET", path, query)

    def list(
        self,
        path: str,
        token: str = "",
        *,
        keep: Callable[[Body], Body] | None = None,
        partial: bool = False,
        **query: str,
    ) -> Body:
        """Return one page of a list of what is true now; `token` asks for the next page of an earlier one.

        `keep`: what is returned of each object. `partial`: of each object its metadata alone.
        """
        query |= {"limit": str(self._page)} | ({"continue": token} if token else {})
        accept = _PARTIAL.format("PartialObjectMetadataList") if partial else ""
        answer = self._send("list", "GET", path, query, accept, read_s=self._read_s, streams=True)
        try:
            found = decode_list(answer.stream(_READ_BYTES), keep or (lambda body: body))
        except ValueError:
            found = None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.no_answer(error) from error
        finally:
            answer.close()
        return self._checked(found)

    def items(self, path: str, keep: Callable[[Body], Body] | None = None, /, **query: str) -> Iterator[Body]:
        """Give all objects of a list, page by page, each with its apiVersion and kind; `keep` as in `list`."""
        token, asked = "", dict[str, Any](query)
        while True:
            page = self.list(path, token, keep=keep, **asked)
            kind = {"apiVersion": str(page.get("apiVersion")), "kind": str(page.get("kind")).removesuffix("List")}
            yield from ({**kind, **one} for one in mappings(page.get("items")))
            token = str(part(page, "metadata").get("continue") or "")
            asked.pop("resourceVersion", None)  # the token has it
            if not token:
                return

    def create(self, kind: Kind, namespace: str | None, body: Body, **query: str) -> Body:
        """Make an object; return it, of a Secret its metadata alone."""
        query = {"fieldManager": self._manager, **query}
        return self._request("create", "POST", kind.path(namespace), query, body, partial=kind.is_secret)

    def replace(self, path: str, body: Body, manager: str = "", *, partial: bool = False, is_dry: bool = False) -> Body:
        """Replace an object, or its status, at the resourceVersion that the body names.

        `is_dry`: only say whether the object is still at that version. `partial`: return its metadata alone.
        """
        query = {"fieldManager": manager or self._manager} | ({"dryRun": "All"} if is_dry else {})
        return self._request("update", "PUT", path, query, body, partial=partial)

    def patch(self, path: str, body: Body) -> Body:
        """Change an object by a JSON merge patch; return it as it is then."""
        return self._request("patch", "PATCH", path, {"fieldManager": self._manager}, body)

    def delete(self, path: str, uid: str, *, waits: bool = False, grace_s: int | None = None) -> Body:
        """Delete the object of this uid, and then what it owns; `waits`: what it owns first."""
        options = {"propagationPolicy": "Foreground" if waits else "Background", "preconditions": {"uid": uid}}
        return self._request("delete", "DELETE", path, {}, _delete_options(options, grace_s))

    def delete_collection(self, path: str, selector: str, version: int, grace_s: int | None = None) -> Body:
        """Delete all objects that the label selector selects and that were there at a resourceVersion, or since.

        The server looks for them in its memory: without a version it reads the whole namespace from etcd.
        """
        options = _delete_options({"propagationPolicy": "Background"}, grace_s)
        query = {"labelSelector": selector, "resourceVersionMatch": "NotOlderThan", "resourceVersion": str(version)}
        return self._request("deletecollection", "DELETE", path, query, options)

    def watch(self, path: str, *, version: str, timeout_s: int, partial: bool = False, **query: str) -> Stream:
        """Start a watch after a resourceVersion; the server ends it after `timeout_s`. Raises ApiError."""
        query |= {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(timeout_s)}
        accept = _PARTIAL.format("PartialObjectMetadata") if partial else ""
        read_s = timeout_s + _WATCH_SLACK_S
        return Stream(self, self._send("watch", "GET", path, query, accept, read_s=read_s, streams=True))

    def stream(self, path: str, *, read_s: float | None = None, **query: str) -> Stream:
        """Start to read text, such as a log; `read_s`: how long it may be silent, None: without limit."""
        return Stream(self, self._send("get", "GET", path, query, "", read_s=read_s, streams=True))

    def no_answer(self, error: Exception) -> Exception:
        """Return what is raised for a request that the API server did not answer, or not to the end."""
        if isinstance(error, ApiError):
            return self.failure(error)
        return self.failure(UnavailableError(f"no answer from {self.access.host}: {_cause(error)}"))

    def close(self) -> None:
        """Close all connections."""
        self.access.pool.close()

    def _request(
        self,
        verb: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Body | None = None,
        *,
        partial: bool = False,
    ) -> Body:
        accept = _PARTIAL.format("PartialObjectMetadata") if partial else ""
        answer = self._send(verb, method, path, query, accept, body, read_s=self._read_s)
        return self._checked(decoded(answer.data, is_whole=self._is_whole), answer.status)

    def _send(
        self,
        verb: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        accept: str,
        body: Body | None = None,
        *,
        read_s: float | None,
        streams: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Return an answer; one that `streams` is still to be read. Raises ApiError for any error status."""
        asked = urlencode({name: text for name, text in query.items() if text})
        code = 0
        try:
            headers = self.headers() | ({"Accept": accept} if accept else {})
            headers |= {} if body is None else {"Content-Type": _MEDIA.get(method, "application/json")}
            answer = self.access.pool.urlopen(
                method,
                f"{self.access.path}{path}" + (f"?{asked}" if asked else ""),
                None if body is None else json.dumps(body, separators=(",", ":")).encode(),
                headers,
                retries=False,
                timeout=urllib3.Timeout(connect=min(_CONNECT_S, read_s or _CONNECT_S), read=read_s),
                preload_content=not streams,
                redirect=False,
            )
            code = answer.status
            if not 200 <= code < 300:
                raise from_status(code, decoded(answer.data), answer.headers.get("Retry-After"))
        except ApiError as error:
            raise self.failure(error) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.no_answer(error) from error
        finally:
            self._answered(verb, str(code))
        return answer

    def _checked(self, body: Any, code: int = 200) -> Body:
        if not isinstance(body, dict):
            message = f"{self.access.host} answered HTTP {code}, and its body is not a JSON object"
            raise self.failure(UnavailableError(message, code))
        return body


class Stream:
    """An answer that is read as it comes: the events of a watch, or the lines of a text."""

    def __init__(self, api: Api, answer: urllib3.BaseHTTPResponse) -> None:
        self._api, self._answer = api, answer
        self._lock = threading.Lock()
        self._stopped = False

    def __iter__(self) -> Iterator[Body]:
        """Give the events until the watch ends. Raises ApiError."""
        for line in self.lines():
            if line.strip():
                yield self._event(line)  # which is not held here: the next one may come in hours

    def lines(self, most: int | None = None) -> Iterator[bytes]:
        """Give the lines, each with its line feed if it has one. Raises ApiError.

        `most`: a line of more bytes comes in parts, as that of a progress bar, which ends with the program: at its last
        carriage return, if it has one.
        """
        rest = b""
        try:
            for chunk in self._answer.stream(_READ_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line + b"\n" for line in whole)
                if most is not None and len(rest) > most:
                    end = rest.rfind(b"\r") + 1 or len(rest)
                    yield rest[:end]
                    rest = rest[end:]
            if rest:
                yield rest
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._api.no_answer(error) from error
        finally:
            with self._lock:
                self._stopped = True
                self._answer.close()

    def _event(self, line: bytes) -> Body:
        event = decoded(line)
        if not isinstance(event, dict):
            raise self._api.failure(UnavailableError("a watch sent invalid JSON"))
        if event.get("type") == "ERROR":
            status = part(event, "object")
            raise self._api.failure(from_status(int(status.get("code") or 500), status))
        return event

    def stop(self) -> None:
        """End it; may be called by another thread."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                with contextlib.suppress(RuntimeError, ValueError, OSError):  # it has ended by itself just now
                    self._answer.shutdown()


def _delete_options(fields: Body, grace_s: int | None) -> Body:
    grace = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **fields, **grace}


def _cause(error: Exception) -> str:
    """What went wrong, without urllib3's pool and its address."""
    cause: BaseException = error
    while isinstance(cause, urllib3.exceptions.HTTPError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
