"""A client of the stand-in's API for the playground's own commands: what kubectl would do, without kubectl."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import urllib3

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
        headers = {"Authorization": f"Bearer {cluster.token()}", "User-Agent": "mpi-playground", "Connection": "close"}
        self._server = urllib3.HTTPSConnectionPool(
            cluster.address, cluster.port, headers=headers, ca_certs=cluster.ca, retries=False
        )

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
        return self._ask("POST", kind.path(version, where if kind.namespaced else ""), body)

    def delete(self, path: str) -> None:
        """Delete an object. Raises ClientError."""
        self._ask("DELETE", path)

    def list(self, path: str) -> Object:
        """All of a kind. Raises ClientError."""
        return self._ask("GET", path)

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
        try:
            answer = _checked(self._server.request("GET", target, preload_content=False, timeout=None))
            yield from answer
        except urllib3.exceptions.HTTPError:
            return  # the cluster has ended

    def _ask(self, method: str, path: str, body: Object | None = None) -> Object:
        try:
            answer = self._server.request(method, path, json=body, timeout=_TIMEOUT_S)
        except urllib3.exceptions.HTTPError as error:
            raise ClientError(f"the stand-in does not answer: {error}") from error
        return dict(_checked(answer).json())


def _checked(answer: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    if answer.status >= 300:
        raise ClientError(str(answer.json().get("message", f"HTTP {answer.status}")))
    return answer
