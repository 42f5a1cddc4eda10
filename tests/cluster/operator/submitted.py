"""A job that was submitted to an operator: what the operator says of it, and what can be seen of it."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import TYPE_CHECKING, Any, Self

from urllib3.exceptions import HTTPError

from tests.cluster.kube import DEADLINE_S, WaitError, until
from tests.cluster.running import ranks_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster import pods as of
    from tests.cluster.kube import Namespace, Object
    from tests.cluster.manifests import WrittenJob

_PAUSE_S = 0.2
_AGENT_PORT = 9470
_END_S = 240.0  # for a whole job, its pods' start included
_KINDS = (
    ("Pod", "v1"),
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("Service", "v1"),
    ("ServiceAccount", "v1"),
    ("Role", "rbac.authorization.k8s.io/v1"),
    ("RoleBinding", "rbac.authorization.k8s.io/v1"),
    ("Job", "batch/v1"),
)


class Submitted:
    """A job in a namespace."""

    def __init__(self, namespace: Namespace, job: WrittenJob) -> None:
        self.namespace, self.job = namespace, job
        plural = f"{job.body['kind'].lower()}s"
        self.path = f"/apis/{job.body['apiVersion']}/namespaces/{namespace.name}/{plural}"
        self.uid = ""

    def start(self) -> Self:
        """Submit it."""
        self.uid = self.namespace.api.call("post", self.path, self.job.body)["metadata"]["uid"]
        return self

    # What the operator says -------------------------------------------------------------------------------------------

    def resource(self) -> Object:
        """The job's object. Raises NotFoundError."""
        return dict(self.namespace.api.call("get", f"{self.path}/{self.job.name}"))

    def status(self) -> Object:
        """Its status."""
        return dict(self.resource().get("status") or {})

    def condition(self, kind: str) -> Object:
        """A condition of it, {} if it has none of this type."""
        found = self.status().get("conditions") or []
        return next((dict(one) for one in found if one["type"] == kind), {})

    def events(self) -> list[tuple[str, str]]:
        """Reasons and messages of its events, oldest first."""
        return [
            (str(one["reason"]), str(one["message"]))
            for one in self.namespace.events()
            if one["involvedObject"].get("uid") == self.uid
        ]

    def until_event(self, reason: str, deadline_s: float = DEADLINE_S) -> str:
        """Wait until it has an event with this reason; return its message. Raises WaitError."""
        what = f"event {reason} of {self.job.name}"
        return until(lambda: f"{what}, but {self.events()}", lambda: dict(self.events()).get(reason), deadline_s)

    def until(self, holds: Callable[[Object], Any], what: str, deadline_s: float = DEADLINE_S) -> Object:
        """Wait until something holds for its status, as a watch tells of it; return that. Raises WaitError."""
        end = time.monotonic() + deadline_s
        status: Object = {}
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(HTTPError):
                for status in self._statuses(left):
                    if holds(status):
                        return status
                    if time.monotonic() > end:
                        break
            time.sleep(_PAUSE_S)
        raise WaitError(f"not within {deadline_s:g} s: {self.job.name} {what}\n{json.dumps(status, indent=1)}")

    def _statuses(self, timeout_s: float) -> Iterator[Object]:
        """Its status as it is, and again after each change, until the watch ends."""
        one = {"fieldSelector": f"metadata.name={self.job.name}"}
        listed = self.namespace.api.call("get", self.path, query=one)
        yield from (item.get("status") or {} for item in listed["items"])
        since = {"resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": int(timeout_s) + 1}
        for line in self.namespace.api.lines(self.path, {**one, **since, "watch": "true"}, timeout_s + 1):
            event = json.loads(line)
            if event["type"] == "ERROR":  # too old a version, or the definition has changed: the next list is newer
                return
            yield event["object"].get("status") or {}

    def until_condition(self, kind: str, deadline_s: float = DEADLINE_S) -> Object:
        """Wait until a condition is True; return the status. Raises WaitError."""
        return self.until(lambda status: kind in true_conditions(status), f"is {kind}", deadline_s)

    def verdict(self, deadline_s: float = _END_S) -> str:
        """Wait until it has ended: `Succeeded` or `Failed`. Raises WaitError."""
        ends = {"Succeeded", "Failed"}
        status = self.until(lambda status: ends & true_conditions(status), "has ended", deadline_s)
        return str((ends & true_conditions(status)).pop())

    def until_gone(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until there is no such job any more. Raises WaitError."""
        path = f"{self.path}/{self.job.name}"
        until(f"{self.job.name} is gone", lambda: self.namespace.api.find(path) is None, deadline_s)

    def until_nothing_left(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until no object of the job's is left. Raises WaitError."""
        until(lambda: f"nothing is left, but {self.objects()}", lambda: not self.objects(), deadline_s)

    # What is there ----------------------------------------------------------------------------------------------------

    def objects(self) -> list[str]:
        """What there is of the job, as Kind/name; pods of its batch Job as well."""
        found = []
        for kind, version in _KINDS:
            query = {"labelSelector": f"mpi-agents/job-uid={self.uid}"}
            listed = self.namespace.api.call("get", self.namespace.path(kind, api_version=version), query=query)
            found += [f"{kind}/{one['metadata']['name']}" for one in listed["items"]]
        return sorted(found)

    def launcher_pod(self) -> of.Pod | None:
        """The latest launcher pod, None before there is one: it has the launcher's name, or its batch Job has."""
        name = f"{self.job.name}-launcher"
        pods = [
            pod
            for pod in self.namespace.pods()
            if name in (pod["metadata"]["name"], pod["metadata"].get("labels", {}).get("job-name"))
        ]
        return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)

    def worker_pods(self) -> dict[str, of.Pod]:
        """The job's worker pods by name."""
        found = self.namespace.pods(f"mpi-agents/job-uid={self.uid},mpi-agents/role=worker")
        return {pod["metadata"]["name"]: pod for pod in found}

    @property
    def launcher(self) -> str:
        """The latest launcher pod's name, "" before there is one."""
        pod = self.launcher_pod()
        return "" if pod is None else str(pod["metadata"]["name"])

    @property
    def output(self) -> str:
        """What the user's container in the launcher pod has printed so far, stdout and stderr."""
        name = self.launcher
        return self.namespace.logs(name, self.job.main["name"]) if name else ""

    def until_output(self, text: str, times: int = 1, deadline_s: float = DEADLINE_S) -> str:
        """Wait until the launcher has printed `text` so often; its output. Raises WaitError."""
        self.until(lambda status: status.get("conditions") and self.launcher, "has a launcher", deadline_s)
        return self.namespace.wait_log(self.launcher, self.job.main["name"], text, times, deadline_s)

    def go_on(self) -> None:
        """Let a launcher that was `gated` do what it was to do."""
        done = self.namespace.exec_in(self.launcher, ["touch", "/tmp/go"], self.job.main["name"])
        assert done.code == 0, done.errors

    def ranks(self) -> dict[int, str]:
        """Where the pi program's ranks said they are: host by rank."""
        return ranks_in(self.output)

    def ask_agent(self, path: str) -> str:
        """What the first worker's agent answers, by the API server's proxy."""
        where = self.namespace.path("Pod", f"{self.job.workers[0]}:{_AGENT_PORT}")
        return "".join(self.namespace.api.lines(f"{where}/proxy/{path}", {}, 10))

    def ranks_of_agent(self) -> set[str]:
        """The ranks whose processes the first worker's agent sees. It looks four times a minute."""
        return set(re.findall(r'rank="(\d+)"', self.ask_agent("metrics")))

    def change(self, change: Object) -> None:
        """Change the job's object by a JSON merge patch."""
        self.namespace.api.call("patch", f"{self.path}/{self.job.name}", change)

    def delete(self) -> None:
        """Delete the job, as kubectl does."""
        query = {"propagationPolicy": "Background"}
        self.namespace.api.call("delete", f"{self.path}/{self.job.name}", query=query)


def true_conditions(status: Object) -> set[str]:
    """The types of the conditions that are True."""
    return {str(one["type"]) for one in status.get("conditions") or [] if one["status"] == "True"}
