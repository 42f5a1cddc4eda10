"""The chart's release in the cluster: installed, changed, looked into, and removed without a trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kubernetes.dynamic.exceptions import NotFoundError

from tests.cluster import pods as of
from tests.cluster.images import REPOSITORY
from tests.cluster.kube import DEFINITIONS, LABELS, Namespace, WaitError, until
from tests.cluster.operator.helm import CHART, Helm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.kube import Api, Object

NAME = "mpi-agents"
LEASE = "mpi-agents-operator"
DEFINITION = f"{DEFINITIONS}/mpijobs.kubeflow.org"
_ALL_DEFINITIONS = (
    DEFINITION,
    f"{DEFINITIONS}/mpijobs.batch.tensorstack.dev",
    f"{DEFINITIONS}/virtualclusters.mpi-agents.io",
)
_SELECTOR = "app.kubernetes.io/name=mpi-agents"
_READY_S = 180.0
_GONE_S = 180.0
_LOOK_S = 150.0  # it looks every minute
_SAMPLE = re.compile(r"^([a-z_]+)(\{.*\})? (\S+)$", re.MULTILINE)


class Release:
    """Our operator in a namespace of its own."""

    def __init__(self, api: Api, kubeconfig: str, namespace: str) -> None:
        self.api = api
        self.namespace = Namespace(api, namespace)
        self.helm = Helm(kubeconfig, namespace)
        self.notes = ""  # what helm printed when it was installed
        self.values: dict[str, Any] = {
            "image": {"registry": REPOSITORY},
            "operator": {"logLevel": "debug"},
            "t9k": {"enabled": True},
        }

    def install(self, values: Mapping[str, Any] | None = None, *options: str) -> str:
        """Install it, wait until it is ready, and return the notes. Raises HelmError, WaitError."""
        notes = self.helm.run("install", NAME, str(CHART), *options, values={**self.values, **(values or {})})
        self.mark()
        self.until_ready()
        return notes.partition("NOTES:\n")[2]

    def upgrade(self, values: Mapping[str, Any] | None = None, *options: str) -> None:
        """Upgrade it to the default values except these, and wait until only the new pods are left.

        An old leader that is being deleted still creates pods by its own settings. Raises HelmError, WaitError.
        """
        self.helm.run("upgrade", NAME, str(CHART), *options, values={**self.values, **(values or {})})
        self.until_ready()
        until("the old pods are gone", lambda: not any(map(_is_ending, self.namespace.pods(_SELECTOR))), _GONE_S)

    def uninstall(self) -> None:
        """Uninstall it, and wait until its pods are gone. Raises HelmError, WaitError."""
        self.helm.run("uninstall", NAME, "--wait", "--timeout=2m")
        self.namespace.until(lambda pods: not pods, "the operator's pods are gone", _GONE_S)

    def strip(self) -> None:
        """Uninstall it if it is there, and remove the definitions. Raises HelmError, WaitError."""
        if self.helm.run("list", "--short", "--all").strip():
            self.uninstall()
        self.remove_definition()

    def remove_everything(self) -> None:
        """Remove it, also what an earlier run has left, with its namespace. Raises HelmError, WaitError."""
        self.strip()
        self.api.remove(self.namespace.path("Namespace", self.namespace.name), _GONE_S)

    def mark(self) -> None:
        """Mark the definition as the tests' own, so that another session may replace it."""
        if self.definition() is not None:
            self.api.call("patch", DEFINITION, {"metadata": {"labels": LABELS}})

    def definition(self) -> Object | None:
        """The kind's definition in the cluster, None where there is none."""
        return self.api.find(DEFINITION)

    def remove_definition(self) -> None:
        """Remove it, T9k's and the virtual clusters' with all jobs there are, and wait. Raises WaitError."""
        for path in _ALL_DEFINITIONS:
            self.api.remove(path, _GONE_S)

    def until_undefined(self) -> None:
        """Wait until there is no such definition. Raises WaitError."""
        until("the definitions are gone", lambda: not any(map(self.api.find, _ALL_DEFINITIONS)), _GONE_S)

    def until_defined(self) -> None:
        """Wait until the kind can be used. Raises WaitError."""
        until("the definition is established", lambda: self.api.is_defined(DEFINITION), _GONE_S)

    # What runs --------------------------------------------------------------------------------------------------------

    def deployment(self) -> Object:
        """The Deployment."""
        return self.namespace.get("Deployment", NAME, "apps/v1")

    def pods(self) -> list[of.Pod]:
        """The operator's pods that are not being deleted, by name."""
        return [pod for pod in self.namespace.pods(_SELECTOR) if not _is_ending(pod)]

    def until_ready(self, deadline_s: float = _READY_S) -> None:
        """Wait until all replicas are of the latest generation and Ready. Raises WaitError."""
        try:
            until("the operator is ready", lambda: _is_rolled_out(self.deployment()), deadline_s)
        except WaitError as error:
            raise WaitError(f"{error}\n{of.picture(self.namespace.pods())}\n{self.log()}") from None

    def until_beside_another(self, *, is_so: bool) -> None:
        """Wait until it has seen that another operator has come, or gone. Raises WaitError."""

        def is_beside() -> bool:
            return any(name == "mpi_operator_neighbours" and value for name, _, value in self.metrics())

        until("it has looked for another operator", lambda: is_beside() is is_so, _LOOK_S)

    def leader(self) -> str:
        """The holder of the lease; "" for none."""
        try:
            lease = self.namespace.get("Lease", LEASE, "coordination.k8s.io/v1")
        except NotFoundError:
            return ""
        return str(lease["spec"].get("holderIdentity") or "")

    def log(self, lines: int = 200) -> str:
        """What the operator's pods have printed last."""
        parts = []
        for pod in self.namespace.pods():
            name = str(pod["metadata"]["name"])
            last = self.namespace.logs(name, "operator").splitlines()[-lines:]
            parts.append(f"--- {name}\n" + "\n".join(last))
        return "\n".join(parts)

    def metrics(self) -> list[tuple[str, dict[str, str], float]]:
        """All samples of all pods: name, labels, value."""
        found = []
        for pod in self.pods():
            port = next(one["containerPort"] for one in pod["spec"]["containers"][0]["ports"])
            path = self.namespace.path("Pod", f"{pod['metadata']['name']}:{port}")
            text = "".join(self.api.lines(f"{path}/proxy/metrics", {}, 10))
            for name, labels, value in _SAMPLE.findall(text):
                found.append((name, dict(re.findall(r'([a-z_]+)="([^"]*)"', labels)), float(value)))
        return found

    def refusals(self) -> list[tuple[str, dict[str, str], float]]:
        """The API requests that were forbidden."""
        return [one for one in self.metrics() if one[1].get("code") == "403"]


def _is_ending(pod: of.Pod) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_rolled_out(deployment: Object) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")}
    return status.get("observedGeneration") == deployment["metadata"]["generation"] and counts == {wanted}
