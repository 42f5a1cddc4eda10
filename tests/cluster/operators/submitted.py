"""A job that was submitted to an operator: what the operator says of it, and what can be seen in its pods."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.cluster.kube import DEADLINE_S, WaitError
from tests.cluster.operators.mpijob import DELIVERY
from tests.cluster.running import Running

if TYPE_CHECKING:
    from tests.cluster.kube import Namespace
    from tests.cluster.operators.mpijob import MpiJob

_PAUSE_S = 0.2
_END_S = 240.0  # for a whole job, its pods' start included


class Submitted(Running):
    """A job in a namespace where an operator looks after it."""

    job: MpiJob  # type: ignore[assignment]

    def __init__(self, namespace: Namespace, job: MpiJob) -> None:
        super().__init__(namespace, job)  # type: ignore[arg-type]
        self._path = f"/apis/kubeflow.org/v1/namespaces/{namespace.name}/mpijobs"

    def start(self) -> Submitted:
        """Submit it."""
        self.namespace.api.call("post", self._path, self.job.body)
        return self

    def status(self) -> dict[str, Any]:
        """What the operator has written of it."""
        found = self.namespace.api.call("get", f"{self._path}/{self.job.name}")
        return dict(found.get("status") or {})

    def verdict(self, deadline_s: float = _END_S) -> str:
        """Wait until the operator says how it ended: `Succeeded` or `Failed`. Raises WaitError."""
        end = time.monotonic() + deadline_s
        while True:
            status = self.status()
            for one in status.get("conditions") or []:
                if one["type"] in ("Succeeded", "Failed") and one["status"] == "True":
                    return str(one["type"])
            if time.monotonic() > end:
                raise WaitError(
                    f"{self.job.name} has not ended after {deadline_s:g} s: {status}\n{self.output[-3000:]}"
                )
            time.sleep(_PAUSE_S)

    def until_hosts(self, host: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the operator names a host to elastic launchers. Raises WaitError."""
        end = time.monotonic() + deadline_s
        while host not in self.namespace.get("ConfigMap", f"{self.job.name}-config")["data"]["discover_hosts.sh"]:
            if time.monotonic() > end:
                raise WaitError(f"{host} is not among the hosts of {self.job.name} after {deadline_s:g} s")
            time.sleep(_PAUSE_S)

    def change(self, change: dict[str, Any]) -> None:
        """Change the job's object by a JSON merge patch."""
        self.namespace.api.call("patch", f"{self._path}/{self.job.name}", change)

    @property
    def delivery(self) -> str:
        """What the launcher's init container has printed."""
        return self.namespace.logs(self.launcher, DELIVERY)
