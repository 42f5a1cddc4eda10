"""Broken jobs of one operator, some side by side, and what `kubectl mpi` says of each."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from agents.client import Explanation, MpiClient
from agents.client.doctor import Level
from tests.cluster.broken import BREAKS
from tests.cluster.healthy import healthy
from tests.cluster.kube import until
from tests.cluster.said import KINDS, Said

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kube import Namespace
    from tests.cluster.manifests import KubeflowJob

# What a kind's namespace enforces: Pod Security, and no pods left in a quota.
_RESTRICTED, _QUOTA = "Pod Security", "quota"
_SAID_S = 240.0  # beside other tests
_PAUSE_S = 1.0
_AT_ONCE = 8  # jobs on one small node
_SLOW = ("evicted", "too late", "fails again and again")  # they come first


class BrokenJobs:
    """All kinds that an operator can have, each in a namespace of its place."""

    def __init__(self, operator: str, new_namespace: Callable[[str], Namespace]) -> None:
        self.operator = operator
        self._spaces = {_RESTRICTED: new_namespace("restricted"), _QUOTA: new_namespace("baseline")}
        self._others = new_namespace("baseline")
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
        full = self._spaces[_QUOTA]
        full.apply([{**quota, "spec": {"hard": {"pods": "0"}}}])
        until("the quota counts", lambda: "used" in (full.get("ResourceQuota", "none").get("status") or {}))
        pool = ThreadPoolExecutor(_AT_ONCE)  # most of the time is waiting
        kinds = sorted(kinds_of(operator), key=lambda kind: kind not in _SLOW)
        self._found = {kind: pool.submit(self._explained, kind) for kind in kinds}
        pool.shutdown(wait=False)

    def explanation(self, kind: str) -> Explanation:
        """Wait until what is said of a kind is what it should, by `doctor` too; return it. Raises WaitError."""
        return self._found[kind].result()

    def _explained(self, kind: str) -> Explanation:
        said = KINDS[kind].of(self.operator)
        assert said is not None
        self._submit(kind, healthy(self.operator, name_of(kind)))
        with MpiClient(kubeconfig=os.environ["KUBECONFIG"], namespace=self._space(kind).name) as client:

            def found() -> Explanation | None:
                return why if _fits(why := client.why(name_of(kind)), said) else None

            explanation = until(lambda: f"{kind}: {client.why(name_of(kind))}", found, _SAID_S, pause_s=_PAUSE_S)
            checks = [one for one in client.doctor(name_of(kind)) if one.level in {Level.FAIL, Level.WARN}]
            client.delete(name_of(kind))  # its pods hold CPUs that others wait for
        assert not said.remedy or any(said.remedy in one.remedy for one in checks), checks
        return explanation

    def _space(self, kind: str) -> Namespace:
        return self._spaces.get(kind, self._others)

    def _submit(self, kind: str, job: KubeflowJob) -> None:
        BREAKS[kind](job)
        namespace = self._space(kind)
        version = job.body["apiVersion"].partition("/")[2]
        namespace.api.call("post", f"/apis/kubeflow.org/{version}/namespaces/{namespace.name}/mpijobs", job.body)


def kinds_of(operator: str) -> list[str]:
    """The kinds that an operator can have."""
    return [kind for kind, one in KINDS.items() if one.of(operator) is not None]


def name_of(kind: str) -> str:
    """The name of a kind's job."""
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")


def _fits(found: Explanation, said: Said) -> bool:
    whole = "\n".join([found.what, *found.lines])
    is_said = all(text in whole for text in said.texts) and said.remedy in found.remedy
    return is_said and found.state in said.state.split("|") and found.reason in said.reason.split("|")
