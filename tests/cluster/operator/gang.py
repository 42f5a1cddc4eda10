"""Gang schedulers: the real one of scheduler-plugins as a process beside the cluster, and of Volcano its definition."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.local.daemons import Daemon, until
from tests.cluster.operators.programs import SCHEDULER_PLUGINS

if TYPE_CHECKING:
    from types import TracebackType

    from tests.cluster.kube import Api

Object = dict[str, Any]

NAME = "gang-scheduler"  # what pods have as schedulerName
GROUP = "scheduling.x-k8s.io/v1alpha1"
VOLCANO_GROUP = "scheduling.volcano.sh/v1beta1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WITHIN_S = 120.0


def definition() -> Object:
    """The PodGroup of scheduler-plugins, as its module has it."""
    found: Object = yaml.safe_load((SCHEDULER_PLUGINS.folder / "crd.yaml").read_text())
    return found


def volcano_definition() -> Object:
    """The PodGroup of Volcano: the fields of volcano.sh/apis v1.9.0 (pkg/apis/scheduling/v1beta1/types.go)."""
    whole: Object = {"type": "integer", "format": "int32"}
    quantity: Object = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    spec: Object = {
        "minMember": whole,
        "minTaskMember": {"type": "object", "additionalProperties": whole},
        "minResources": {"type": "object", "additionalProperties": quantity},
        "priorityClassName": {"type": "string"},
        "queue": {"type": "string", "default": "default"},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.volcano.sh"},
        "spec": {
            "group": "scheduling.volcano.sh",
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


class Defined:
    """A kind that is defined for the time of a `with` block."""

    def __init__(self, api: Api, body: Object) -> None:
        self._api, self._body = api, body
        self._path = f"{_DEFINITIONS}/{body['metadata']['name']}"

    def __enter__(self) -> None:
        self._remove()
        self._api.call("post", _DEFINITIONS, self._body)
        until("the kind's definition", lambda: self._api.is_defined(self._path), _WITHIN_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._api.find(self._path):
            self._api.call("delete", self._path)
            until("the end of the kind's definition", lambda: not self._api.find(self._path), _WITHIN_S)


class GangScheduler:
    """scheduler-plugins' scheduler with coscheduling, for the pods that name it, for the time of a `with` block."""

    def __init__(self, kubeconfig: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mpi-agents-gang-"))
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig},
            "profiles": [
                {
                    "schedulerName": NAME,
                    "plugins": {
                        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
                    },
                }
            ],
        }
        file = self._folder / "configuration.json"
        file.write_text(json.dumps(configuration))
        words = (SCHEDULER_PLUGINS.binary, f"--config={file}", "--secure-port=0", "-v=2")
        self._daemon = Daemon(NAME, [str(word) for word in words], self._folder, self._folder)

    def __enter__(self) -> GangScheduler:
        self._daemon.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        print(self.log()[-3000:])
        self._daemon.stop()
        shutil.rmtree(self._folder)

    def log(self) -> str:
        """What it has printed."""
        return self._daemon.log.read_text(errors="replace")
