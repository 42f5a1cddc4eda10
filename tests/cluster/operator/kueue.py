"""Kueue as a process beside the cluster, with its visibility API, and a queue of it."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from agents.playground.certs import Authority
from tests.cluster.local.daemons import Daemon, until
from tests.cluster.local.places import Places
from tests.cluster.operators.operator import answers
from tests.cluster.operators.programs import KUEUE
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Api, Namespace

QUEUE, URGENT = "night", "urgent"
_VERSION = "kueue.x-k8s.io/v1beta2"
_VISIBILITY = "v1beta2.visibility.kueue.x-k8s.io"
_WITHIN_S = 120.0
# What leads the API server to the visibility API: a name of this machine, in place of a Service's pods.
_SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: kueue-visibility-server}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta2.visibility.kueue.x-k8s.io}
spec:
  group: visibility.kueue.x-k8s.io
  version: v1beta2
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: kueue-visibility-server, namespace: default, port: %d}
  insecureSkipTLSVerify: true
"""


@contextlib.contextmanager
def running(api: Api, kubeconfig: str) -> Iterator[None]:
    """Kueue for jobs that name a queue, without its webhooks: a job has to be submitted suspended."""
    with contextlib.ExitStack() as stack:
        for body in KUEUE.kinds():
            stack.enter_context(api.made(body))
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mpi-agents-kueue-")))
        health, visibility = f"127.0.0.1:{free_port()}", free_port()
        _fill(root, kubeconfig, health, visibility)
        words = ("/usr/sbin/chroot", root, "/kueue", "--config=/configuration.json", "--kubeconfig=/kubeconfig")
        daemon = Daemon(KUEUE.command, [str(word) for word in words], root, root)
        daemon.start()
        stack.callback(daemon.stop)
        stack.callback(lambda: print(daemon.log.read_text(errors="replace")[-3000:]))
        until("Kueue's start", lambda: answers(health, "/readyz"), _WITHIN_S, daemon)
        for one in yaml.safe_load_all(_SERVICE % visibility):
            stack.enter_context(api.made(one, "default"))
        until("Kueue's visibility API", lambda: _is_served(api), _WITHIN_S, daemon)
        yield


@contextlib.contextmanager
def queue(namespace: Namespace, pods: int) -> Iterator[None]:
    """The LocalQueue `QUEUE`, of a ClusterQueue with a quota of so many pods; `URGENT` jobs come first."""
    quota = [{"name": "pods", "nominalQuota": pods}]
    groups = [{"coveredResources": ["pods"], "flavors": [{"name": QUEUE, "resources": quota}]}]
    with contextlib.ExitStack() as stack:
        for kind, name, body in (
            ("ResourceFlavor", QUEUE, {"spec": {}}),
            ("WorkloadPriorityClass", URGENT, {"value": 1, "description": ""}),
            ("ClusterQueue", QUEUE, {"spec": {"namespaceSelector": {}, "resourceGroups": groups}}),
            ("LocalQueue", QUEUE, {"spec": {"clusterQueue": QUEUE}}),
        ):
            one = {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, **body}
            stack.enter_context(namespace.api.made(one, namespace.name))
        try:
            yield
        finally:
            _end_jobs(namespace)


def _end_jobs(namespace: Namespace) -> None:
    """Delete all jobs, and then their Workloads, which only Kueue lets go."""
    for kind, version in (("MPIJob", "kubeflow.org/v2beta1"), ("Workload", _VERSION)):
        path = namespace.path(kind, api_version=version)
        namespace.api.call("delete", path)
        until(f"the end of each {kind}", functools.partial(_is_empty, namespace.api, path), _WITHIN_S)


def _is_empty(api: Api, path: str) -> bool:
    return not api.call("get", path)["items"]


def _fill(root: Path, kubeconfig: str, health: str, visibility: int) -> None:
    """The folder that is its `/`: where it looks for certificates is a part of the program."""
    pair = Authority(str(root)).server()
    folders = [root / "visibility", root / "etc/kueue/metrics/certs", root / "webhook"]
    for folder in folders:
        folder.mkdir(parents=True)
        shutil.copy(pair.certificate, folder / "tls.crt")
        shutil.copy(pair.key, folder / "tls.key")
    shutil.copy(KUEUE.binary, root / "kueue")
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": health},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": free_port(), "certDir": "/webhook"},
        "visibilityServer": {"bindAddress": "127.0.0.1", "bindPort": visibility},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["kubeflow.org/mpijob"]},
    }
    (root / "configuration.json").write_text(json.dumps(configuration))
    view = (Places.of().bin / "kubectl", "--kubeconfig", kubeconfig, "config", "view", "--raw", "--flatten")
    (root / "kubeconfig").write_bytes(subprocess.run(view, check=True, capture_output=True).stdout)


def _is_served(api: Api) -> bool:
    path = api.path("APIService", "apiregistration.k8s.io/v1", _VISIBILITY)
    conditions = (api.find(path) or {}).get("status", {}).get("conditions") or ()
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)
