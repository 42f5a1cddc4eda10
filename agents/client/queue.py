"""Where jobs are in Kueue's queues, and why it has not admitted them, as far as the user may read it.

- positions: the visibility API (`visibility.kueue.x-k8s.io`), the pending workloads of a LocalQueue
- reasons: the conditions of a job's Workload (`kueue.x-k8s.io`)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import quote

from agents.client.connection import Connection
from agents.client.errors import ClientError
from agents.client.facts import Facts, Pending
from agents.common.text import one_line
from agents.job.json_object import Object, mappings, part

_GROUP, _VISIBILITY = "kueue.x-k8s.io", "visibility.kueue.x-k8s.io"
_QUEUES_MAX = 20  # are asked for
_LIMIT = "1000"  # pending workloads of each: Kueue's own default


class Queues:
    """Asks Kueue. What is not served, or not allowed, is None."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._versions: dict[str, str] = {}  # by API group; "": not served

    def pending(self, facts: Facts) -> Pending | None:
        """Return where a queued job is, and why it is not admitted; None if it is not queued."""
        if not _is_queued(facts):
            return None
        uid = _uid(facts)
        position = self._of_queue(facts.namespace, facts.kueue_queue).get(uid)
        label = {"labelSelector": f"{_GROUP}/job-uid={uid}"}
        [workload, *_] = [*self._items(_GROUP, f"namespaces/{facts.namespace}/workloads", **label), {}]
        return Pending(position, reason_of(workload))

    def placed(self, jobs: Sequence[Facts]) -> list[Facts]:
        """Return jobs with their positions, by one request for each queue that has some of them."""
        queues = dict.fromkeys((one.namespace, one.kueue_queue) for one in jobs if _is_queued(one))
        found: dict[str, int] = {}
        for namespace, queue in [*queues][:_QUEUES_MAX]:
            found |= self._of_queue(namespace, queue)
        return [replace(one, pending=Pending(found.get(_uid(one)))) if _is_queued(one) else one for one in jobs]

    def _of_queue(self, namespace: str, queue: str) -> dict[str, int]:
        path = f"namespaces/{namespace}/localqueues/{quote(queue, safe='')}/pendingworkloads"
        return positions_of(self._items(_VISIBILITY, path, limit=_LIMIT))

    def _items(self, group: str, path: str, **query: str) -> list[Object]:
        try:
            if group not in self._versions:
                self._versions[group] = ""
                served = self._connection.get(f"/apis/{group}")
                self._versions[group] = str(part(served, "preferredVersion").get("version") or "")
            if version := self._versions[group]:
                return [*mappings(self._connection.get(f"/apis/{group}/{version}/{path}", **query).get("items"))]
        except ClientError:  # there is no Kueue, or the user has no right to ask it: the rest is worth showing
            pass
        return []


def _is_queued(facts: Facts) -> bool:
    return facts.is_suspended and bool(facts.kueue_queue) and not facts.has_ended


def _uid(facts: Facts) -> str:
    return str(part(facts.resource, "metadata").get("uid"))


def positions_of(workloads: Iterable[Object]) -> dict[str, int]:
    """Return the positions of pending workloads in their LocalQueue, from 1, by the uids of the jobs they are for."""
    found = {}
    for one in workloads:
        place = one.get("positionInLocalQueue", 0)  # the first one's may be left out
        for owner in mappings(part(one, "metadata").get("ownerReferences")):
            if isinstance(place, int):
                found[str(owner.get("uid"))] = place + 1
    return found


def reason_of(workload: Object) -> str:
    """Return why Kueue has not admitted a workload: what the first of its conditions that is not yet True says."""
    conditions = {str(one.get("type")): one for one in mappings(part(workload, "status").get("conditions"))}
    waiting = (conditions.get(kind, {}) for kind in ("QuotaReserved", "Admitted"))
    return next((one_line(str(one.get("message") or "")) for one in waiting if one.get("status") == "False"), "")
