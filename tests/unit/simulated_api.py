"""An API server in memory, with a clock that a test moves and the faults that a test asks for.

The operator's `Api` speaks to it in place of a connection pool: all of its HTTP is real but the sockets.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from urllib3.exceptions import ProtocolError

from agents.playground.access import Rule, User, rules_of
from agents.playground.request import Request
from agents.playground.resources import BATCH_JOBS, MPI_JOBS, PODS
from agents.playground.rest import Response
from agents.playground.writes import RefusedError
from tests import yamls
from tests.objects import T9K, Failure, Objects, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agents.playground.rest import Call
    from tests.objects import Body

NAMESPACE = "default"


class KilledError(BaseException):
    """The operator is killed: nothing of it keeps running."""


class SimulatedApi:
    """Stored objects are read only: `changed` takes a new version of one."""

    host = "simulated"
    path = ""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.objects = Objects(lambda: self.now)
        self.quota = 10**6  # how many objects may still be made before creations of pods and Jobs are refused
        self.refusal = 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3'
        self.requests: list[tuple[str, str]] = []  # except lists and watches
        self.kills_in: int | None = None  # after so many requests
        self.lost: list[str] = []  # what happens to the next requests: "", "request" or "answer"
        self.most = 10**6  # events that a watch tells before it ends
        self.meanwhile: dict[int, Callable[[], object]] = {}  # what happens in so many half requests

    # What users and the cluster's own controllers do.

    def add(self, plural: str, body: Body) -> Body:
        return self.objects.add(plural, NAMESPACE, body)

    def changed(self, plural: str, body: Body) -> Body:
        return self.objects.put(plural, body)

    def remove(self, plural: str, body: Body, *, waits: bool = False) -> None:
        """Delete an object, which may be there for a while."""
        self.objects.remove(place_of(plural, body), waits=waits)

    def drop(self, plural: str, body: Body) -> None:
        """Take an object away at last."""
        found = self.find(plural, body["metadata"]["name"])
        if found is not None and found["metadata"]["uid"] == body["metadata"]["uid"]:
            self.objects.put(plural, found, "DELETED")

    def all(self, plural: str) -> list[Body]:
        return self.objects.select(plural)

    def find(self, plural: str, name: str) -> Body | None:
        return self.objects.find((plural, NAMESPACE, name))

    def clock(self, later_s: float = 0) -> str:
        return self.objects.timestamp(later_s)

    # What the operator's Api finds in the place of its access.

    @property
    def pool(self) -> SimulatedApi:
        return self

    def headers(self) -> Mapping[str, str]:
        return {}

    def urlopen(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, **_how: Any
    ) -> Answer:
        given = {name.lower(): text for name, text in (headers or {}).items()}
        call = self.objects.api.read(Request(method, url, given, body or b"{}"))
        is_watched = call.verb == "watch" or (call.verb == "list" and "fieldSelector" not in call.request.query)
        if not is_watched:
            self.requests.append((call.verb, call.request.path))
            self._happen()
        lost = self.lost.pop(0) if self.lost and not is_watched else ""
        if lost == "request":
            raise ProtocolError("Connection aborted.")
        if self.kills_in is not None and not is_watched:
            self.kills_in -= 1
            if self.kills_in < 0:
                raise KilledError
        try:
            answer = self._answer(call)
        except RefusedError as refused:
            return Answer(refused.status["code"], json.dumps(refused.status).encode())
        if answer.status < 300 and not is_watched:
            self._happen()
            if lost == "answer":
                raise ProtocolError("Connection aborted.")
        return answer

    def _happen(self) -> None:
        """Twice a request: before it is carried out, and before it is answered."""
        coming, self.meanwhile = self.meanwhile, {}
        now = coming.pop(0, None)
        if now is not None:
            now()
        self.meanwhile = {number - 1: each for number, each in coming.items()}

    def _answer(self, call: Call) -> Answer:
        api = self.objects.api
        if not _may(call.verb, call.resource, call.target.resource.group if call.target else ""):
            api.authorize(call, _operator())
        if call.verb == "create" and call.target is not None:
            place = (call.target.resource.key, call.target.namespace, json.loads(call.request.body)["metadata"]["name"])
            if self.objects.get(*place) is None:
                if self.quota <= 0 and call.target.resource in (PODS, BATCH_JOBS):
                    raise Failure(403, "Forbidden", self.refusal)
                self.quota -= 1
        answer = api.answer(call, _operator())
        if isinstance(answer, Response):
            return Answer(answer.code, answer.body)
        lines = answer.poll()
        is_all = len(lines) <= self.most and not answer.is_expired
        reached = {"metadata": {"resourceVersion": str(api.store.version)}}
        bookmark = json.dumps({"type": "BOOKMARK", "object": reached}).encode() + b"\n"
        return Answer(200, b"".join([*lines, bookmark] if is_all else lines[: self.most]))


@cache
def _operator() -> User:
    """What the chart lets the operator do."""
    documents = (Path(__file__).parents[2] / "install.yaml").read_text().split("\n---\n")
    roles = [yamls.load(one) for one in documents if "\nkind: ClusterRole\n" in one]
    (role,) = [one for one in roles if one["metadata"]["name"] == "mpi-agents"]
    rules = [
        *rules_of(role),
        *(Rule(verb, "podgroups") for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ]
    t9k = [replace(rule, group=T9K) for rule in rules if rule.group == MPI_JOBS.group]  # by values of the chart
    return User("operator", (*rules, *t9k))


@cache
def _may(verb: str, resource: str, group: str) -> bool:
    return _operator().may(verb, resource, "", NAMESPACE, group)


class Answer:
    """What the operator's Api reads an answer from."""

    def __init__(self, status: int, data: bytes) -> None:
        self.status, self.headers, self.data = status, dict[str, str](), data

    def read(self) -> bytes:
        return self.data

    def stream(self, _most: int) -> Iterator[bytes]:
        yield self.data

    def close(self) -> None:
        """Nothing is open."""

    shutdown = close
