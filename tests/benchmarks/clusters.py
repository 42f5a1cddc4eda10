"""What benchmarks on a Kubernetes share: the tests' own cluster, a namespace, and when containers printed lines."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from tests.benchmarks.measure import BenchmarkError
from tests.cluster.kube import Namespace, until
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.places import Places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.command import Say
    from tests.cluster.kube import Api

# Upstream's, byte for byte (kubeflow/mpi-operator v0.1 to v0.3, training-operator v1), except its `set -x`.
KUBEXEC = """#!/bin/sh
POD_NAME=$1
shift
/opt/kube/kubectl exec ${POD_NAME} -- /bin/sh -c "$*"
"""
_LOG_S = 10.0


def own_version() -> str:
    """What a benchmark on the tests' own cluster is measured with."""
    return f"Kubernetes {Places.of().version}"


@contextlib.contextmanager
def cluster(say: Say, images: str = "") -> Iterator[str]:
    """The tests' own cluster, up with its images for this time unless it was before: the kubeconfig's path.

    `images`: of those that take long or are large, with commas between. Raises BenchmarkError, SetupError.
    """
    local = LocalCluster(Places.of(), say)
    was_up = local.is_up
    words = [sys.executable, "-m", "tests.cluster", "up"]
    env = os.environ | ({"CLUSTER_IMAGES": images} if images else {})
    try:
        if subprocess.run(words, stdout=sys.stderr, check=False, env=env).returncode:
            raise BenchmarkError("the tests' own cluster does not come up")
        yield str(local.places.kubeconfig)
    finally:
        if not was_up:
            local.down()


@contextlib.contextmanager
def namespace_for(api: Api, level: str = "privileged") -> Iterator[Namespace]:
    """Make a namespace in which pods can be made at once; it is deleted afterwards, without a wait for its end."""
    namespace = Namespace(api, f"bench-{secrets.token_hex(3)}")
    namespace.create(level)
    try:
        account = namespace.path("ServiceAccount", "default")
        until("the namespace's service account", lambda: api.find(account))
        yield namespace
    finally:
        namespace.delete("Namespace", namespace.name)


def printed(namespace: Namespace, pod: str, container: str, pattern: str) -> list[tuple[float, re.Match[str]]]:
    """When a container printed the lines that have this pattern, by the container runtime's clock, which is ours."""
    path, query = f"{namespace.path('Pod', pod)}/log", {"container": container, "timestamps": "true"}
    stamped = [line.split(" ", 1) for line in namespace.api.lines(path, query, _LOG_S)]
    return [
        (datetime.fromisoformat(at).timestamp(), found) for at, line in stamped if (found := re.search(pattern, line))
    ]
