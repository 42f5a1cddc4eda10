"""Requests to the API server: plain dicts in and out, typed errors, each answer reported by verb and code.

The `kubernetes` package gives configuration, TLS and authentication (`access`); its typed and dynamic clients are not
used, since they make models or deep copies of every object, which costs more than the request itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3

from agents.job.json_object import Body
from agents.kube.access import Access
from agents.kube.decode import decode, decode_list
from agents.kube.errors import UnavailableError, from_status
from agents.kube.kinds import Kind

_CONNECT_S = 5.0
_WATCH_SLACK_S = 30.0  # how long to wait for a silent watch after its own timeout
_PAGE = 50  # objects, each of up to 1.5 MiB: limits the API server's work; the operator decodes one at a time
_READ_BYTES = 65536
_MEDIA = {"PATCH": "application/merge-patch+json"}
_PARTIAL = "application/json;as={};g=meta.k8s.io;v=v1"  # metadata alone; a server that can't do that answers 406


class Api:
    """One API server; safe to be used by many threads."""

    def __init__(
        self,
        access: Access,
        *,
        agent: str,
        manager: str,
        answered: Callable[[str, str], object] = lambda _verb, _code: None,
        timeout_s: float = 30.0,
    ) -> None:
        """`agent`: the name in requests. `manager`: of the fields written. `timeout_s`: for each request but a watch.

        `answered` is called with verb and code of each request; code "0": no answer.
        """
        self._access, self._manager, self._answered, self._read_s = access, manager, answered, timeout_s
        self._headers = {"Accept": "application/json", "User-Agent": agent}

    def get(self, path: str, **query: str) -> Body:
        """Return what is there. Raises ApiError, as all requests do."""
        return self._request("get", "GET", path, query)

    def list(
        self,
        path: str,
        *,
        keep: Callable[[Body], Body] = lambda body: body,
        token: str = "",
        partial: bool = False,
        **query: str,
    ) -> Body:
        """Return one page of a list of what is true now; `token` asks for the next page of an earlier one.

        `keep`: what is returned of each object. `partial`: of each object its metadata alone.
        """
        query |= {"limit": str(_PAGE)} | ({"continue": token} if token else {})
        wanted = {name: text for name, text in query.items() if text}
        answer = self._send(
            "list",
            "GET",
            path,
            wanted,
            "PartialObjectMetadataList" if partial else "",
            read_s=self._read_s,
            streams=True,
        )
        try:
            found = decode_list(answer.stream(_READ_BYTES), keep)
        except ValueError:
            found = None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._no_answer(error) from error
        finally:
            answer.close()
        return _checked(found)

    def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        """Make an object; return it, of a Secret its metadata alone."""
        query = {"fieldManager": self._manager}
        return self._request("create", "POST", kind.path(namespace), query, body, partial=kind.is_secret)

    def replace(self, path: str, body: Body, manager: str = "", *, partial: bool = False, is_dry: bool = False) -> Body:
        """Replace an object, or its status, at the resourceVersion that the body names.

        `is_dry`: only say whether the object is still at that version. `partial`: return its metadata alone.
        """
        query = {"fieldManager": manager or self._manager} | ({"dryRun": "All"} if is_dry else {})
        return self._request("update", "PUT", path, query, body, partial=partial)

    def patch(self, path: str, body: Body) -> Body:
        """Change an object by a JSON merge patch."""
        return self._request("patch", "PATCH", path, {"fieldManager": self._manager}, body)

    def delete(self, path: str, uid: str, *, waits: bool = False, grace_s: int | None = None) -> Body:
        """Delete the object of this uid and what it owns: behind it, or if it `waits`, before it."""
        options = {"propagationPolicy": "Foreground" if waits else "Background", "preconditions": {"uid": uid}}
        return self._request("delete", "DELETE", path, {}, _delete_options(options, grace_s))

    def delete_collection(self, path: str, selector: str, version: int, grace_s: int | None = None) -> Body:
        """Delete all objects that the label selector selects and that were there at a resourceVersion, or since.

        The server looks for them in its memory: without a version it reads the whole namespace from etcd.
        """
        options = _delete_options({"propagationPolicy": "Background"}, grace_s)
        query = {"labelSelector": selector, "resourceVersionMatch": "NotOlderThan", "resourceVersion": str(version)}
        return self._request("deletecollection", "DELETE", path, query, options)

    def watch(self, path: str, *, version: str, timeout_s: int, selector: str = "", partial: bool = False) -> Watch:
        """Begin a watch after a resourceVersion; the server ends it after `timeout_s`. Raises ApiError."""
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(timeout_s)} | ({"labelSelector": selector} if selector else {})
        accept, read_s = "PartialObjectMetadata" if partial else "", timeout_s + _WATCH_SLACK_S
        return Watch(self._send("watch", "GET", path, query, accept, read_s=read_s, streams=True))

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
        accept = "PartialObjectMetadata" if partial else ""
        answer = self._send(verb, method, path, query, accept, body, read_s=self._read_s)
        return _checked(_decoded(answer.data), answer.status)

    def _send(
        self,
        verb: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        accept: str,
        body: Body | None = None,
        *,
        read_s: float,
        streams: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Return an answer; one that `streams` is still to be read. Raises ApiError for any error status."""
        headers = {**self._headers, **self._access.headers()}
        headers |= {"Accept": _PARTIAL.format(accept)} if accept else {}
        headers |= {} if body is None else {"Content-Type": _MEDIA.get(method, "application/json")}
        code = 0
        try:
            answer = self._access.pool.urlopen(
                method,
                f"{self._access.path}{path}" + (f"?{urlencode(query)}" if query else ""),
                None if body is None else json.dumps(body, separators=(",", ":")).encode(),
                headers,
                retries=False,
                timeout=urllib3.Timeout(connect=min(_CONNECT_S, read_s), read=read_s),
                preload_content=not streams,
                redirect=False,
            )
            code = answer.status
            if not 200 <= code < 300:
                raise from_status(code, _decoded(answer.data), answer.headers.get("Retry-After"))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._no_answer(error) from error
        finally:
            self._answered(verb, str(code))
        return answer

    def _no_answer(self, error: Exception) -> UnavailableError:
        return UnavailableError(f"no answer from {self._access.host}: {_cause(error)}")


class Watch:
    """The events of one watch, as they come."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._stopped = False

    def __iter__(self) -> Iterator[Body]:
        """The events until the watch ends. Raises ApiError."""
        rest = b""
        try:
            for chunk in self._answer.stream(_READ_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        yield decode(line)
        except ValueError as error:
            raise UnavailableError(f"a watch sent invalid JSON: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnavailableError(f"a watch was interrupted: {_cause(error)}") from error
        finally:
            with self._lock:
                self._stopped = True
                self._answer.close()

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


def _decoded(data: bytes) -> Any:
    try:
        return decode(data)
    except ValueError:
        return None


def _checked(body: Any, code: int = 200) -> Body:
    if not isinstance(body, dict):
        raise UnavailableError(f"HTTP {code} whose body is not a JSON object", code)
    return body


def _cause(error: Exception) -> str:
    """What went wrong, without urllib3's pool and its address."""
    cause: BaseException = error
    while isinstance(cause, urllib3.exceptions.HTTPError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    if isinstance(cause, (socket.gaierror, OSError)) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
