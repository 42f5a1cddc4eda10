"""Metadata alone, as the operator asks for it of Secrets: what the stand-in shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agents.kube.access import load
from agents.kube.api import Api
from agents.kube.kinds import SECRET
from agents.playground import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

LABELLED = {"labels": {"mpi-agents/job-uid": "j"}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Cluster(tmp_path_factory.mktemp("cluster"), runs_pods=False) as cluster:
        yield Api(load(cluster.kubeconfig(), 4), agent="mpi-operator", manager="mpi-agents")


def secret(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **LABELLED}, "data": {"a": "c2VjcmV0"}}


def test_metadata_alone_has_no_data(api: Api) -> None:
    version = api.list(SECRET.path("default"), partial=True)["metadata"]["resourceVersion"]
    watch = api.watch(SECRET.path("default"), version=version, timeout_s=20, partial=True)
    made = api.create(SECRET, "default", secret("made"))
    event = next(iter(watch))
    watch.stop()
    assert event == {"type": "ADDED", "object": made}
    assert made["metadata"]["name"] == "made"
    assert made.keys() == {"kind", "apiVersion", "metadata"}
    listed = api.list(SECRET.path("default"), partial=True)
    assert (listed["kind"], listed["items"][0]["metadata"]["name"]) == ("PartialObjectMetadataList", "made")
    assert "c2VjcmV0" not in json.dumps(listed)
    assert "c2VjcmV0" in json.dumps(api.list(SECRET.path("default")))
