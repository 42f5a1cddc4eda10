"""A client of the stand-in's API for the playground's own commands: what kubectl would do, without kubectl."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from . import resources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cluster import Cluster

Object = dict[str, Any]
_TIMEOUT_S = 30.0


class ClientError(Exception):
    """The API server refused, or can't be reached: one line for people."""


class Client:
    """One user of a cluster, who may do everything."""

    def __init__(self, cluster: Cluster) -> None:
        self._host, self._port = cluster.address, cluster.port
        self._context = ssl.create_default_context(cafile=cluster.ca)
        self._headers = {"Authorization": f"Bearer {cluster.token()}", "User-Agent": "mpi-playground"}

    def create(self, body: Object, namespace: str = "default") -> Object:
        """Make an object of a manifest. Raises ClientError."""
        kind = resources.of_kind(str(body.get("apiVersion")), str(body.get("kind")))
        if kind is None:
            raise ClientError(
                f"the stand-in has no {body.get('kind')} of {body.get('apiVersion')}: it runs MPIJobs, and pods; "
                "for the rest take a cluster (docs/install.md)"
            )
        where = (body.get("metadata") or {}).get("namespace") or namespace
        version = str(body["apiVersion"]).rpartition("/")[2]
        return self.request("POST", kind.path(version, where if kind.namespaced else ""), body)

    def delete(self, path: str) -> None:
        """Delete an object. Raises ClientError."""
        self.request("DELETE", path)

    def list(self, path: str) -> Object:
        """All of a kind. Raises ClientError."""
        return self.request("GET", path)

    def watch(self, path: str, version: str) -> Iterator[Object]:
        """The events after a version, until the connection ends."""
        for line in self._lines(f"{path}?{urlencode({'watch': '1', 'resourceVersion': version})}"):
            yield json.loads(line)

    def follow(self, namespace: str, pod: str, container: str) -> Iterator[str]:
        """The lines of a container's output, until it has ended."""
        path = resources.PODS.path("v1", namespace, pod, "log")
        for line in self._lines(f"{path}?{urlencode({'container': container, 'follow': 'true'})}"):
            yield line.decode(errors="replace")

    def _lines(self, target: str) -> Iterator[bytes]:
        connection = self._connect(None)
        try:
            answer = self._send(connection, "GET", target)
            while line := answer.readline():
                yield line
        except (OSError, http.client.HTTPException):
            return  # the cluster has ended
        finally:
            connection.close()

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request, and return the object of the answer. Raises ClientError."""
        connection = self._connect(_TIMEOUT_S)
        try:
            answer = self._send(connection, method, path, body)
            return dict(json.loads(answer.read()))
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(f"the stand-in does not answer: {error}") from error
        finally:
            connection.close()

    def _connect(self, timeout_s: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)

    def _send(
        self, connection: http.client.HTTPSConnection, method: str, target: str, body: Object | None = None
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body)
        connection.request(method, target, data, {**self._headers, "Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status >= 300:
            raise ClientError(str(json.loads(answer.read()).get("message", f"HTTP {answer.status}")))
        return answer
