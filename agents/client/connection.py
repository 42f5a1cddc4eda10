"""Requests to the API server: plain dicts in and out, errors for people.

Configuration, credentials and TLS are the `kubernetes` package's; its typed clients are not used, since objects of
every dialect, and of versions that it does not know, are read as they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, list_kube_config_contexts, load_incluster_config, load_kube_config

from agents.client.errors import AccessError, from_status
from agents.job.json_object import Body, mapping, mappings, part
from agents.kube.access import Access, own_namespace
from agents.kube.decode import decode
from agents.kube.errors import UnavailableError
from rshagent import __version__

_CONNECT_S, _READ_S = 10.0, 60.0
_CONNECTIONS = 4
_PAGE = 500  # as kubectl
_READ_BYTES = 65536
_DEFAULT_KUBECONFIG = "~/.kube/config"


class Connection:
    """One user's requests to one API server. `namespace` is that of the context, or of the pod we run in."""

    def __init__(self, access: Access, namespace: str) -> None:
        self.access = access
        self.namespace = namespace
        self.headers = {"Accept": "application/json, */*", "User-Agent": f"kubectl-mpi/{__version__}"}

    @classmethod
    def load(cls, kubeconfig: str | None, context: str | None) -> Connection:
        """Connect as kubectl would: by the file given, KUBECONFIG, ~/.kube/config, or the pod's service account.

        Raises AccessError.
        """
        file = kubeconfig or os.environ.get("KUBECONFIG") or None
        is_in_pod = not (file or context or os.path.exists(os.path.expanduser(_DEFAULT_KUBECONFIG)))
        configuration = Configuration()
        try:
            if is_in_pod and os.environ.get("KUBERNETES_SERVICE_HOST"):
                load_incluster_config(client_configuration=configuration)
                return cls(Access(configuration, _CONNECTIONS), own_namespace())
            load_kube_config(config_file=file, context=context, client_configuration=configuration)
            return cls(Access(configuration, _CONNECTIONS), _namespace(file, context))
        except (ConfigException, OSError, ValueError) as error:
            where = file or _DEFAULT_KUBECONFIG
            raise AccessError(f"no cluster is configured by {where}: {error} (see --kubeconfig, --context)") from None

    def get(self, path: str, **query: str) -> Body:
        """Return what is at a path. Raises ClientError, as all requests do."""
        return self._body(self._send("GET", path, query))

    def items(self, path: str, **query: str) -> Iterator[Body]:
        """Return all objects of a list, page by page. Each has the list's apiVersion."""
        token = ""
        while True:
            page = {"limit": str(_PAGE), **query} | ({"continue": token} if token else {})
            found = self.get(path, **page)
            version, kind = str(found.get("apiVersion")), str(found.get("kind")).removesuffix("List")
            for one in mappings(found.get("items")):
                yield {"apiVersion": version, "kind": kind, **one}
            token = str(mapping(found.get("metadata")).get("continue") or "")
            query.pop("resourceVersion", None)  # the token has it
            if not token:
                return

    def create(self, path: str, body: Body, **query: str) -> Body:
        """Create an object; return it as it is there."""
        return self._body(self._send("POST", path, {"fieldManager": "kubectl-mpi", **query}, body))

    def patch(self, path: str, body: Body) -> Body:
        """Change an object by a JSON merge patch; return it as it is then."""
        return self._body(self._send("PATCH", path, {"fieldManager": "kubectl-mpi"}, body))

    def delete(self, path: str, uid: str) -> None:
        """Delete the object of this uid, and what it owns behind it."""
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        self._body(self._send("DELETE", path, {}, {"apiVersion": "v1", "kind": "DeleteOptions", **options}))

    def events(self, path: str, *, version: str, timeout_s: int, **query: str) -> Iterator[Body]:
        """Watch a path after a resourceVersion: the events until the server ends the watch, after `timeout_s`."""
        query |= {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(max(1, timeout_s))}
        for line in self.lines(path, query, read_s=timeout_s + _READ_S):
            event = mapping(decoded(line))
            if event.get("type") == "ERROR":
                status = mapping(event.get("object"))
                raise from_status(int(status.get("code") or 500), status, "")
            yield event

    def lines(
        self, path: str, query: Mapping[str, str], *, read_s: float | None = None, most: int | None = None
    ) -> Iterator[bytes]:
        """Return the lines of an answer as they come, each with its line feed if it has one.

        `read_s`: how long the stream may be silent; None: without limit. `most`: a line of more bytes comes in parts,
        as that of a progress bar, which ends with the program: at its last carriage return, if it has one.
        """
        answer = self._send("GET", path, query, streams=True, read_s=read_s)
        rest = b""
        try:
            for chunk in answer.stream(_READ_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line + b"\n" for line in whole)
                if most is not None and len(rest) > most:
                    end = rest.rfind(b"\r") + 1 or len(rest)
                    yield rest[:end]
                    rest = rest[end:]
            if rest:
                yield rest
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self.no_answer(error) from error
        finally:
            answer.close()

    def close(self) -> None:
        """Close all connections."""
        self.access.pool.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Body | None = None,
        *,
        streams: bool = False,
        read_s: float | None = _READ_S,
    ) -> urllib3.BaseHTTPResponse:
        try:
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers = {**self.headers, **self.access.headers(), "Content-Type": media}
            answer = self.access.pool.urlopen(
                method,
                f"{self.access.path}{path}" + (f"?{urlencode(query)}" if query else ""),
                None if body is None else json.dumps(body).encode(),
                headers,
                retries=False,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=read_s),
                preload_content=not streams,
                redirect=False,
            )
            if 200 <= answer.status < 300:
                return answer
            raise from_status(answer.status, decoded(answer.data), answer.reason or "")
        except (urllib3.exceptions.HTTPError, OSError, UnavailableError) as error:
            raise self.no_answer(error) from error

    def _body(self, answer: urllib3.BaseHTTPResponse) -> Body:
        found = decoded(answer.data)
        if not isinstance(found, dict):
            raise AccessError(f"{self.access.host} is no API server: its answer is not a JSON object")
        return found

    def no_answer(self, error: Exception) -> AccessError:
        """Return the error of a request that the API server did not answer."""
        cause: BaseException = error
        while isinstance(cause, urllib3.exceptions.HTTPError) and (cause.__cause__ or cause.__context__):
            cause = cause.__cause__ or cause.__context__ or cause
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return AccessError(f"no answer from {self.access.host}: {reason}")


def _namespace(file: str | None, context: str | None) -> str:
    contexts, active = list_kube_config_contexts(config_file=file)
    chosen = next((one for one in contexts if one.get("name") == context), None) if context else active
    return str(part(chosen, "context").get("namespace") or "default")


def decoded(data: bytes) -> Any:
    """Return the value of an answer; None if it is no JSON."""
    try:
        try:
            return json.loads(data)
        except RecursionError:  # anyone may nest a job so deeply, and must not hide others by it
            return decode(data)
    except ValueError:
        return None
