"""The operator as a process, beside an API server that fails: no job is lost, and no pod is made twice."""

from __future__ import annotations

import itertools
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from objects_api import conditions
from operating import (
    PATIENCE_S,
    Operator,
    all_succeeded,
    api,
    have_been_made,
    job,
    operator_with,
    ssh_job,
    submit,
    t9k_job,
    workers_gone,
)

from agents.operator import process
from tests.objects import Failure
from tests.ports import free_port
from tests.waiting import until
from tests.web import get

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from objects_api import ObjectsApi

    from tests.objects import Request

__all__ = ["api"]

JOBS = [f"job-{number}" for number in range(12)]


def run_all(folder: Path, api: ObjectsApi) -> None:
    """By an operator whose retries wait for little; that each waits longer is a unit test's matter."""
    with Operator(folder, api.port, "--no-leader-elect", program=operator_with("queue.LAST_RETRY_S = 0.2")):
        submit(api, *JOBS)
        api.wait(all_succeeded(JOBS))
        api.wait(workers_gone)
    assert_each_pod_was_made_once(api)


def assert_each_pod_was_made_once(api: ObjectsApi) -> None:
    made = {place: count for place, count in api.objects.created.items() if place[0] == "pods"}
    assert len(made) == len(JOBS) * 3
    assert set(made.values()) == {1}


# What a job costs that takes longer to start than its first status is held back, 2.25 s: 8 creates, four writes of the
# status (the first is a dry run), three events, two deletions, and the end of the launcher's rights. By ssh, a Secret
# stands for a ServiceAccount, a Role and a RoleBinding, and the running workers are written down up to three times.
@pytest.mark.parametrize(("face", "most"), [(job, 18), (ssh_job, 18), (t9k_job, 17)])
def test_jobs_run_through(tmp_path: Path, api: ObjectsApi, face: Callable[[str], Any], most: int) -> None:
    with Operator(tmp_path, api.port) as operator:
        submit(api, *JOBS, faces=[face])
        api.wait(all_succeeded(JOBS))
        api.wait(workers_gone)
        assert operator.terminate() == 0
    assert_each_pod_was_made_once(api)
    assert "s3cret" not in operator.said()
    writes = sum(count for (verb, plural), count in api.requests.items() if plural not in {"leases"} and verb in WRITES)
    assert writes <= most * len(JOBS)


KUBELET_S = 28  # before a pod's 30 s of grace are over
OWN_END_S = process.STEPS_END_S + process.EVENTS_END_S + process.LEASE_REQUEST_S
WRITES = {"create", "update", "patch", "delete", "deletecollection", "get"}


@pytest.mark.parametrize(("end", "pods"), [("kill", 1), ("terminate", 11), ("kill", 20)])
def test_a_kill_in_mid_burst_loses_nothing(tmp_path: Path, api: ObjectsApi, end: str, pods: int) -> None:
    """The next one finds out what the last one had done."""
    with Operator(tmp_path, api.port, "--no-leader-elect") as operator:
        submit(api, *JOBS)
        api.wait(have_been_made(pods))
        getattr(operator, end)()
    with Operator(tmp_path, api.port, "--no-leader-elect", name="next"):
        api.wait(all_succeeded(JOBS))
        api.wait(workers_gone)
    assert_each_pod_was_made_once(api)


def test_an_outage_in_mid_burst_loses_nothing(tmp_path: Path, api: ObjectsApi) -> None:
    with Operator(tmp_path, api.port, "--no-leader-elect") as operator:
        submit(api, *JOBS)
        api.wait(have_been_made(8))
        api.stop()
        api.start()
        api.wait(all_succeeded(JOBS))
        api.wait(workers_gone)
        assert operator.terminate() == 0
    assert_each_pod_was_made_once(api)


def test_watches_that_end_or_are_too_old_lose_nothing(tmp_path: Path, api: ObjectsApi) -> None:
    ended = threading.Event()
    api.may_end = lambda _launcher: ended.is_set()
    with Operator(tmp_path, api.port, "--no-leader-elect"):
        submit(api, *JOBS)
        for count in (3, 9, 18):
            api.wait(have_been_made(count))
            api.end_watches(forget=count == 9)
        api.end_watches(forget=True)
        ended.set()
        api.wait(all_succeeded(JOBS))
        api.wait(workers_gone)
    assert_each_pod_was_made_once(api)


class Often:
    """A fault that a write of four meets: the second, the third after it, then the seventh.

    If it were each fourth it could be the same write of each of a job's tries, for ever.
    """

    def __init__(self, fault: Callable[[], bool]) -> None:
        self._fault = fault
        self._meets = itertools.cycle(turn == gap for gap in (2, 3, 7) for turn in range(1, gap + 1))
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> bool:
        if request.verb not in WRITES or request.plural in {"leases", "events"}:
            return True
        with self._lock:
            meets = next(self._meets)
        return self._fault() if meets else True


def refuse(code: int, reason: str, retry_after: str = "") -> Callable[[], bool]:
    def fault() -> bool:
        raise Failure(code, reason, "on purpose", retry_after)

    return fault


FAULTS = {  # one of each type of error; test_kube_api.py has the codes
    "no answer": lambda: False,
    "429": refuse(429, "TooManyRequests", "0"),
    "409": refuse(409, "Conflict"),
    "403": refuse(403, "Forbidden"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_writes_that_fail_are_tried_again(tmp_path: Path, api: ObjectsApi, fault: str) -> None:
    api.fault = Often(FAULTS[fault])
    run_all(tmp_path, api)


def test_answers_that_are_lost_after_the_deed_make_nothing_twice(tmp_path: Path, api: ObjectsApi) -> None:
    """The request was carried out, and nobody knows."""
    count = [0]

    def forgets(request: Request) -> bool:
        is_counted = request.verb == "create" and request.plural != "events"
        count[0] += is_counted
        return is_counted and count[0] % 3 == 0

    api.forgets = forgets
    run_all(tmp_path, api)


def test_the_second_replica_takes_over(tmp_path: Path, api: ObjectsApi) -> None:
    ended = threading.Event()
    api.may_end = lambda _launcher: ended.is_set()
    with (
        Operator(tmp_path, api.port, "--lease-namespace", "ours", name="first") as first,
        Operator(tmp_path, api.port, "--lease-namespace", "ours", name="second") as second,
    ):
        submit(api, *JOBS)
        api.wait(have_been_made(10))
        holder = api.objects.at(("leases", "ours", "mpi-agents-operator"))["spec"]["holderIdentity"]
        leads = first if "leading" in first.said() else second
        assert leads.terminate() == 0
        ended.set()
        api.wait(all_succeeded(JOBS))
        lease = api.objects.at(("leases", "ours", "mpi-agents-operator"))
        assert lease["spec"]["holderIdentity"] not in {"", holder}
    assert_each_pod_was_made_once(api)


def test_one_that_lost_its_lease_stops_and_says_so(tmp_path: Path, api: ObjectsApi) -> None:
    with Operator(tmp_path, api.port, "--lease-namespace", "ours") as operator:
        submit(api, *JOBS[:1])
        api.wait(all_succeeded(JOBS[:1]))
        with api.objects.changed:
            lease = api.objects.at(("leases", "ours", "mpi-agents-operator"))
            api.objects.put("leases", lease | {"spec": lease["spec"] | {"holderIdentity": "another"}}, "MODIFIED")
        assert operator.process.wait(60) == 1
        lease = api.objects.at(("leases", "ours", "mpi-agents-operator"))
        assert lease["spec"]["holderIdentity"] == "another"
    assert "lost the lease ours/mpi-agents-operator" in operator.said()


def test_it_waits_for_an_api_server_and_ends_meanwhile_at_once(tmp_path: Path, api: ObjectsApi) -> None:
    api.stop()
    port = free_port()
    with Operator(tmp_path, api.port, "--port", str(port)) as operator:
        operator.wait_until_said("waiting for the API server")
        code, text = get(f"http://127.0.0.1:{port}/readyz")  # no standby: it could not take over
        assert (code, "waiting for the API server" in text) == (503, True)
        api.start()
        submit(api, *JOBS)
        api.wait(all_succeeded(JOBS))
        assert operator.terminate() == 0
    assert "Traceback" not in operator.said()


def test_a_list_that_is_refused_is_told_with_the_rule_that_lacks(tmp_path: Path, api: ObjectsApi) -> None:
    port, successful = free_port(), f"mpi_operator_jobs_successful_total {len(JOBS)}"

    def fault(request: Request) -> bool:
        if request.plural == "rolebindings":
            raise Failure(403, "Forbidden", "rolebindings is forbidden")
        return True

    api.fault = fault
    words = "does not allow list and watch of rolebindings.rbac.authorization.k8s.io in namespace team"
    with Operator(tmp_path, api.port, "--namespace", "team", "--port", str(port)) as operator:
        operator.wait_until_said(words)
        until(lambda: words in get(f"http://127.0.0.1:{port}/readyz")[1], "it is said there, too")
        assert get(f"http://127.0.0.1:{port}/readyz")[0] == 503
        assert get(f"http://127.0.0.1:{port}/healthz")[0] == 200
        api.fault = lambda _request: True
        submit(api, *JOBS)
        api.wait(all_succeeded(JOBS))
        assert get(f"http://127.0.0.1:{port}/readyz") == (200, "leading\n")
        # A success is counted when the API server has answered, so a moment after it is seen here.
        until(lambda: successful in get(f"http://127.0.0.1:{port}/metrics")[1], successful)
        metrics = get(f"http://127.0.0.1:{port}/metrics")[1]
    for line in (
        f"mpi_operator_jobs_created_total {len(JOBS)}",
        successful,
        "mpi_operator_jobs_failed_total 0",
        "mpi_operator_is_leader 1",
        'mpi_operator_job_info{launcher="job-3-launcher",namespace="team"} 1',
        'mpi_operator_api_requests_total{code="201",verb="create"}',
        'mpi_operator_watch_restarts_total{kind="rolebindings",why="refused"}',
        "mpi_operator_queue_depth ",
    ):
        assert f"\n{line}" in metrics


def test_a_namespace_that_is_gone_with_our_rights_holds_up_no_other(tmp_path: Path, api: ObjectsApi) -> None:
    """Jobs there, if any are seen, are not planned before it is known what has been made for them."""

    def fault(request: Request) -> bool:
        if request.namespace == "gone" and request.plural != "mpijobs":
            raise Failure(403, "Forbidden", f"{request.plural} is forbidden")
        return True

    api.fault = fault
    there = job("there")
    there["metadata"]["namespace"] = "gone"
    with api.objects.changed:
        api.objects.add("mpijobs", "gone", there)
    with Operator(tmp_path, api.port, "--namespace", "team,gone") as operator:
        submit(api, *JOBS)
        api.wait(all_succeeded(JOBS))
        operator.wait_until_said("does not allow list and watch of pods in namespace gone")
        assert "status" not in api.objects.at(("mpijobs", "gone", "there"))
        api.fault = lambda _request: True
        api.wait(lambda objects: "Succeeded" in conditions(objects.at(("mpijobs", "gone", "there"))))


@pytest.mark.parametrize("how", ["gone", "hangs"])
def test_it_ends_before_the_kubelet_kills_it_although_no_request_is_answered(
    tmp_path: Path, api: ObjectsApi, how: str
) -> None:
    over, met = threading.Event(), threading.Event()

    def hang(request: Request) -> bool:
        if request.plural != "leases":
            met.set()
            over.wait(120)
        return request.plural == "leases"

    assert OWN_END_S < KUBELET_S
    shorter = operator_with("process.STEPS_END_S = process.EVENTS_END_S = 0.2")
    with Operator(tmp_path, api.port, program=shorter) as operator:
        submit(api, *JOBS[:1])
        api.wait(all_succeeded(JOBS[:1]))
        if how == "gone":
            api.stop()
        else:
            api.fault = hang
            submit(api, *JOBS[1:])
            assert met.wait(PATIENCE_S)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(KUBELET_S - OWN_END_S) == 0
    over.set()
    assert "Traceback" not in operator.said()
