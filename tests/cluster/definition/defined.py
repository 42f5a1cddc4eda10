"""The kind's definition in the cluster: kubeflow's or ours, one in the other's place; and the jobs there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from tests.cluster.kube import DEFINITIONS, LABELS, until
from tests.cluster.local.places import Places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kube import Api
    from tests.cluster.operators.programs import Program

Object = dict[str, Any]

FILE = Path(__file__).parents[3] / "charts" / "mpi-agents" / "definitions" / "kubeflow.org_mpijobs.yaml"
_PATH = f"{DEFINITIONS}/mpijobs.kubeflow.org"


def ours() -> Object:
    """Our definition."""
    return dict(yaml.safe_load(FILE.read_text()))


def kubeflows(program: Program, version: str = "") -> Object:
    """The definition that an operator of kubeflow's brings; with one of its versions alone, and that stored."""
    if not program.can_be_had and not Places.of().is_cluster_of(os.environ["KUBECONFIG"]):
        pytest.skip(
            "kubeflow's definitions come with the modules of its operators, which Go downloads (https://go.dev)"
        )
    (found,) = program.kinds()
    if version:
        found["spec"]["versions"] = [
            one | {"storage": True} for one in found["spec"]["versions"] if one["name"] == version
        ]
    return found


class Definition:
    """What the cluster knows an MPIJob as."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._now: Object | None = None

    def be(self, definition: Object) -> None:
        """See to it that this is the definition, without the jobs of another one."""
        if self._now != definition:
            self.remove()
            self.put(definition)

    def put(self, definition: Object) -> None:
        """Create it, or let it take the place of the one that is there, and wait until the API server serves it."""
        body = definition | {"metadata": definition["metadata"] | {"labels": LABELS}}
        if (found := self._api.find(_PATH)) is None:
            self._api.call("post", DEFINITIONS, body)
        else:
            body["metadata"] = body["metadata"] | {"resourceVersion": found["metadata"]["resourceVersion"]}
            self._api.call("put", _PATH, body)
        self._now = definition
        until("the definition is served", lambda: self._api.is_defined(_PATH))

    def remove(self) -> None:
        """Remove it with all jobs, if there is one, and wait."""
        self._now = None
        self._api.remove(_PATH)


class Jobs:
    """The MPIJobs of a namespace, through either version."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def create(self, job: Object) -> Object:
        """Create a job as `kubectl create` does, which takes no field that isn't known. Raises ApiException."""
        version = job["apiVersion"].rpartition("/")[2]
        path = self._path(version)
        return dict(self._api.call("post", path, job, query={"fieldValidation": "Strict", "fieldManager": "kubectl"}))

    def get(self, name: str, version: str) -> Object:
        """Read a job."""
        return dict(self._api.call("get", self._path(version, name)))

    def list(self, version: str) -> list[Object]:
        """List the jobs."""
        return list(self._api.call("get", self._path(version))["items"])

    def replace(self, job: Object, *, part: str = "") -> Object:
        """Put a job in the place of what is there, or its status. Raises ApiException."""
        version = job["apiVersion"].rpartition("/")[2]
        return dict(self._api.call("put", self._path(version, job["metadata"]["name"], part), job))

    def patch(self, name: str, version: str, change: Mapping[str, Any], *, part: str = "") -> Object:
        """Change a job by a merge patch, or its status. Raises ApiException."""
        return dict(self._api.call("patch", self._path(version, name, part), change))

    def until_ours(self, name: str) -> None:
        """Wait until our definition is obeyed: it gives jobs a dialect."""
        until("our definition", lambda: self._has_dialect(name))

    def _has_dialect(self, name: str) -> bool:
        try:
            return all("dialect" in self.get(name, version)["spec"] for version in ("v1", "v2beta1"))
        except ApiException:
            return False

    def _path(self, version: str, *names: str) -> str:
        rest = "/".join(name for name in names if name)
        path = f"/apis/kubeflow.org/{version}/namespaces/{self._namespace}/mpijobs"
        return f"{path}/{rest}" if rest else path
