"""A client of the stand-in's API for the playground's own commands: what kubectl would do, without kubectl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import urllib3

from . import resources

if TYPE_CHECKING:
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
        return self.request("POST", kind.path(version, where if kind.namespaced else ""), body)

    def delete(self, path: str) -> None:
        """Delete an object. Raises ClientError."""
        self.request("DELETE", path)

    def list(self, path: str) -> Object:
        """All of a kind. Raises ClientError."""
        return self.request("GET", path)

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send a request, and return the object of the answer. Raises ClientError."""
        try:
            answer = self._server.request(method, path, json=body, timeout=_TIMEOUT_S)
        except urllib3.exceptions.HTTPError as error:
            raise ClientError(f"the stand-in does not answer: {error}") from error
        if answer.status >= 300:
            raise ClientError(str(answer.json().get("message", f"HTTP {answer.status}")))
        return dict(answer.json())
