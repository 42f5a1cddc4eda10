"""The lease: who leads, until when, and how it is handed over."""

from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from clocks import Clock
from simulated_api import Answer

from agents.kube.api import Api
from agents.kube.errors import ApiError, NotFoundError, RejectedError, UnavailableError
from agents.operator.leader import Leader, Times
from agents.operator.process import own_identity
from agents.playground.access import user
from agents.playground.request import Request
from agents.playground.rest import Response
from tests.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Callable

Body = dict[str, Any]
PATIENCE_S = 20.0
PLACE = ("leases", "ns", "op")
QUICK = Times(retry_s=0.001)


class Leases:
    """What the operator's Api finds in the place of its access: an object store that may have the lease.

    While `fails` is set, each request raises it. `instead`: what answers a method's requests in its place.
    """

    host, path = "simulated", ""

    def __init__(self, held: Body | None = None) -> None:
        self.pool = self
        self.objects = Objects()
        self.fails: ApiError | None = None
        self.instead: dict[str, Callable[[], Answer]] = {}
        self.asked: list[str] = []
        self.asking = threading.Lock()  # as the API server: nothing comes between a request's look and its deed
        if held is not None:
            self.objects.add("leases", "ns", held)

    def holds(self, held: Body) -> None:
        """Somebody writes the lease."""
        self.objects.edit(PLACE, lambda body: body.update(spec=held["spec"]))

    def headers(self) -> dict[str, str]:
        return {}

    def urlopen(self, method: str, url: str, body: bytes | None, headers: dict[str, str], **_how: Any) -> Answer:
        request = Request(method, url, {name.lower(): text for name, text in headers.items()}, body or b"")
        self.asked.append(f"{self.objects.api.read(request).verb} {request.path}")
        if self.fails is not None:
            raise self.fails
        if method in self.instead:
            return self.instead[method]()
        with self.asking:
            answer = self.objects.api.handle(request, user("me", ["*"]))
        assert isinstance(answer, Response)
        return Answer(answer.code, answer.body)


def lease(holder: str, renewed: str = "2026-01-01T00:00:00.000000Z", seconds: int = 15) -> Body:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds, "leaseTransitions": 3}
    return {"metadata": {"name": "op", "namespace": "ns"}, "spec": spec}


def leader(
    api: Leases, clock: Clock | None = None, name: str = "me", times: Times | None = None, **more: Any
) -> Leader:
    requests = Api(api, agent="mpi-operator", manager="mpi-agents")  # type: ignore[arg-type]
    return Leader(requests, "ns", "op", name, times, clock=clock or Clock(), **more)


def spec(api: Leases) -> Body:
    return dict(api.objects.at(PLACE)["spec"])


def test_the_first_makes_the_lease_and_leads() -> None:
    api, clock = Leases(), Clock()
    one = leader(api, clock)
    assert not one.leads()
    assert one.try_once()
    assert one.leads()
    assert spec(api)["holderIdentity"] == "me"
    assert spec(api)["leaseDurationSeconds"] == 15
    assert spec(api)["acquireTime"] == spec(api)["renewTime"]
    assert api.asked[0] == "get /apis/coordination.k8s.io/v1/namespaces/ns/leases/op"


def test_renewing_takes_one_request_and_keeps_when_it_began() -> None:
    api = Leases()
    one = leader(api)
    one.try_once()
    began = spec(api)["acquireTime"]
    api.asked.clear()
    assert one.try_once()
    assert api.asked == ["update /apis/coordination.k8s.io/v1/namespaces/ns/leases/op"]
    assert spec(api)["acquireTime"] == began
    assert spec(api)["leaseTransitions"] == 0


def test_nobody_s_lease_is_taken_at_once() -> None:
    api = Leases(lease("", seconds=1))
    assert leader(api).try_once()
    assert spec(api)["leaseTransitions"] == 4


def test_another_s_lease_is_taken_when_it_was_seen_unchanged_for_its_time() -> None:
    """By our own clock: what its text says of the time, in another's clock, means nothing."""
    api, clock = Leases(lease("other", "1999-01-01T00:00:00.000000Z")), Clock()
    one = leader(api, clock)
    assert not one.try_once()
    assert one.holder == "other"
    clock.now += 15
    assert not one.try_once()
    api.holds(lease("other", "1999-01-01T00:00:02.000000Z"))
    clock.now += 1
    assert not one.try_once()
    clock.now += 15.1
    assert one.try_once()
    assert spec(api)["holderIdentity"] == "me"


@pytest.mark.parametrize("error", [UnavailableError("no answer"), RejectedError("forbidden", 403)])
def test_a_leader_that_can_t_renew_stops_acting_before_another_may_begin(error: ApiError) -> None:
    api, clock = Leases(), Clock()
    one, other = leader(api, clock), leader(api, clock, "other")
    one.try_once()
    other.try_once()
    api.fails = error
    clock.now += 9.9
    assert not one.try_once()
    assert one.leads()
    clock.now += 0.2
    assert not one.leads()
    api.fails = None
    assert not other.try_once()
    clock.now += 5
    assert other.try_once()


def test_the_time_counts_from_when_the_renewal_was_begun() -> None:
    api, clock = Leases(), Clock()
    one = leader(api, clock)

    def slow() -> Answer:
        clock.now += 9
        raise NotFoundError("no such lease", 404)

    api.instead["GET"] = slow
    assert one.try_once()
    clock.now += 1.1
    assert not one.leads()


def test_of_two_that_see_it_free_one_leads() -> None:
    api = Leases(lease(""))
    one, other = leader(api), leader(api, name="other")
    stale = Answer(200, json.dumps(api.objects.at(PLACE)).encode())
    api.instead["GET"] = lambda: stale
    assert one.try_once()
    assert not other.try_once()
    assert not other.leads()


def test_a_lease_that_another_took_is_lost_at_once_and_told() -> None:
    api, lost = Leases(), threading.Event()
    one = leader(api, times=QUICK, on_lost=lost.set)
    assert one.acquire(threading.Event())
    with api.asking:
        api.holds(lease("other"))
    assert lost.wait(PATIENCE_S)
    assert not one.leads()
    one.release()
    assert spec(api)["holderIdentity"] == "other"


def test_a_fault_of_ours_while_renewing_loses_the_lease() -> None:
    """Else nobody would renew it, and the process would look like a standby for ever."""
    api, lost = Leases(), threading.Event()
    one = leader(api, times=QUICK, on_lost=lost.set)
    assert one.acquire(threading.Event())

    def broken() -> Answer:
        raise KeyError("spec")

    api.instead["PUT"] = broken
    assert lost.wait(PATIENCE_S)
    assert not one.leads()
    one.release()


def test_it_is_given_up_at_the_end_and_the_next_need_not_wait() -> None:
    api = Leases()
    one, other = leader(api, times=QUICK), leader(api, name="other")
    assert one.acquire(threading.Event())
    one.release()
    assert not one.leads()
    assert (spec(api)["holderIdentity"], spec(api)["leaseDurationSeconds"]) == ("", 1)
    assert other.try_once()


def test_who_waits_can_be_stopped() -> None:
    stop = threading.Event()
    one = leader(Leases(lease("other")))
    stop.set()
    assert not one.acquire(stop)


def test_why_it_can_t_be_had_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    api = Leases()
    api.fails = RejectedError('leases "op" is forbidden', 403)
    one = leader(api)
    assert not one.try_once()
    assert not one.try_once()
    assert one.complaint == 'leases "op" is forbidden'
    assert [each.getMessage() for each in caplog.records] == [
        'the lease ns/op can\'t be acquired: leases "op" is forbidden'
    ]


def test_a_lease_of_ones_own_is_taken_back_at_once() -> None:
    """As by a container that the kubelet has started again."""
    api = Leases(lease("me"))
    assert leader(api).try_once()
    assert spec(api)["leaseTransitions"] == 3


@pytest.mark.parametrize(
    ("environ", "pid", "is_same"),
    [({"POD_UID": "u-1"}, 1, True), ({"POD_UID": "u-1"}, 7, False), ({}, 1, False), ({"POD_UID": ""}, 1, False)],
    ids=["a container's first process", "another process in it", "in no pod", "without the uid"],
)
def test_who_is_the_same_after_a_restart(environ: dict[str, str], pid: int, is_same: bool) -> None:
    first, again = own_identity(environ, pid), own_identity(environ, pid)
    assert (first == again) is is_same
    assert first.startswith(f"{socket.gethostname()}_")
    assert own_identity({"POD_UID": "u-2"}, 1) not in {first, again}
