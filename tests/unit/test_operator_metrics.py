"""Metrics, logs, health and events, as those who read them want them."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from typing import Any

import pytest

from agents.job.status import Event
from agents.kube.errors import ApiError, NotFoundError, RejectedError
from agents.operator.http_server import HttpServer
from agents.operator.logs import Formatter
from agents.operator.metrics import Metrics
from agents.operator.recorder import Recorder
from tests.web import get

Body = dict[str, Any]


def lines(metrics: Metrics, name: str) -> list[str]:
    return [one for one in metrics.text().splitlines() if one.partition("{")[0].partition(" ")[0].startswith(name)]


def test_a_gauge_is_read_when_it_is_asked_for() -> None:
    metrics, seen = Metrics(), [('a"b\\c\nd', "ns")]
    metrics.infos[metrics.job_info] = lambda: seen
    metrics.queue_depth.set_function(lambda: len(seen))
    expected = 'mpi_operator_job_info{launcher="a\\"b\\\\c\\nd",namespace="ns"} 1.0'
    assert lines(metrics, "mpi_operator_job_info") == [expected]
    seen.append(("b", "ns"))
    assert lines(metrics, "mpi_operator_queue_depth") == ["mpi_operator_queue_depth 2.0"]
    assert lines(metrics, "mpi_operator_job_info")[0] == expected


def test_no_other_metrics_are_there() -> None:
    """Neither the library's own of the process, nor when each counter was created."""
    metrics = Metrics()
    metrics.requests.labels("get", "200").inc()
    named = {one.partition("{")[0].partition(" ")[0] for one in metrics.text().splitlines() if one[:1] != "#"}
    assert all(one.startswith("mpi_operator_") and not one.endswith("_created") for one in named)


def test_kubeflow_s_five_are_there_by_name() -> None:
    text = Metrics().text()
    for name, kind in (
        ("jobs_created_total", "counter"),
        ("jobs_successful_total", "counter"),
        ("jobs_failed_total", "counter"),
        ("job_info", "gauge"),
        ("is_leader", "gauge"),
    ):
        assert f"# TYPE mpi_operator_{name} {kind}\n" in text


def record(message: str, *given: object, **extra: object) -> logging.LogRecord:
    one = logging.LogRecord("x", logging.WARNING, "", 0, message, given, None)
    vars(one).update(extra)
    one.created, one.msecs = 1_767_268_800.25, 250.0
    return one


def test_a_line_of_the_log() -> None:
    one = record('job %s: create Pod "x"', "team/pi", job="team/pi")
    assert Formatter(as_json=False).format(one) == (
        'time=2026-01-01T12:00:00.250Z level=warning msg="job team/pi: create Pod \\"x\\"" job=team/pi'
    )
    assert json.loads(Formatter(as_json=True).format(one)) == {
        "time": "2026-01-01T12:00:00.250Z",
        "level": "warning",
        "msg": 'job team/pi: create Pod "x"',
        "job": "team/pi",
    }


@pytest.mark.parametrize("as_json", [False, True])
def test_a_traceback_is_part_of_its_line(as_json: bool) -> None:
    try:
        raise KeyError("a fault")
    except KeyError:
        one = record("job %s can't be planned", "team/pi")
        one.exc_info = sys.exc_info()
    line = Formatter(as_json=as_json).format(one)
    assert "\n" not in line
    assert "KeyError" in line


FORGED = 'gone\ntime=2026-01-01T12:00:00.250Z level=info msg=fine\r\x1b[2J\x85\u2028\u202e\ud800 "'


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("said", [FORGED, "\x1b" * 10_000, "é" * 10_000])
def test_what_came_from_outside_is_no_line_of_its_own(said: str, as_json: bool) -> None:
    line = Formatter(as_json=as_json).format(record("job %s: %s", "team/pi", said, job=f"team/{said[:20]}"))
    assert line.isprintable()
    assert len(line.encode()) < 7000 if as_json else len(line.encode()) < 1300


def test_health_is_served() -> None:
    server = HttpServer("127.0.0.1", 0, {"/readyz": lambda: (503, "not yet\n"), "/metrics": lambda: (200, "x 1\n")})
    server.start()
    try:
        assert get(f"http://127.0.0.1:{server.port}/readyz?verbose") == (503, "not yet\n")
        assert get(f"http://127.0.0.1:{server.port}/metrics") == (200, "x 1\n")
        assert get(f"http://127.0.0.1:{server.port}/nothing")[0] == 404
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("address", "hosts"), [("", ["127.0.0.1", "[::1]"]), ("::1", ["[::1]"]), ("127.0.0.1", ["127.0.0.1"])]
)
def test_health_is_served_by_both_families_as_a_pod_may_have_but_one(address: str, hosts: list[str]) -> None:
    has_both = socket.has_dualstack_ipv6()
    server = HttpServer(address if has_both else "", 0, {"/healthz": lambda: (200, "ok\n")})
    server.start()
    try:
        for host in hosts if has_both else ["127.0.0.1"]:
            assert get(f"http://{host}:{server.port}/healthz") == (200, "ok\n")
    finally:
        server.stop()


# Events

JOB: Body = {
    "apiVersion": "kubeflow.org/v2beta1",
    "metadata": {"name": "pi", "namespace": "team", "uid": "u", "resourceVersion": "7"},
}


class Api:
    def __init__(self) -> None:
        self.made: list[Body] = []
        self.patched: list[tuple[str, Body]] = []
        self.fails: ApiError | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def create(self, kind: Any, namespace: str, body: Body) -> Body:
        assert self.may_go_on.wait(20)
        if self.fails is not None:
            raise self.fails
        self.made.append(body)
        return body

    def patch(self, path: str, body: Body) -> Body:
        if path.endswith("gone"):
            raise NotFoundError("gone", 404)
        self.patched.append((path, body))
        return body


def lost(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("mpi_operator_events_lost_total") or 0.0


def recorded(api: Api, *events: Event) -> Metrics:
    metrics = Metrics()
    one = Recorder(api, metrics, "host-1")  # type: ignore[arg-type]
    one.start()
    for event in events:
        one.emit(JOB, event)
    one.stop(20)
    return metrics


def test_an_event_says_what_happened_to_which_job() -> None:
    api = Api()
    recorded(api, Event("Normal", "MPIJobCreated", "MPIJob team/pi is created."))
    made = api.made[0]
    assert made["metadata"]["name"].startswith("pi.")
    assert made["metadata"]["namespace"] == "team"
    assert made["involvedObject"] == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "namespace": "team",
        "name": "pi",
        "uid": "u",
        "resourceVersion": "7",
    }
    assert (made["type"], made["reason"], made["message"], made["count"]) == (
        "Normal",
        "MPIJobCreated",
        "MPIJob team/pi is created.",
        1,
    )
    assert made["source"] == {"component": "mpi-job-controller", "host": "host-1"}


def test_the_same_again_is_counted() -> None:
    api = Api()
    recorded(api, *[Event("Warning", "A", "m")] * 3, Event("Warning", "A", "n"))
    assert [each["message"] for each in api.made] == ["m", "n"]
    name = api.made[0]["metadata"]["name"]
    assert [(path, body["count"]) for path, body in api.patched] == [
        (f"/api/v1/namespaces/team/events/{name}", 2),
        (f"/api/v1/namespaces/team/events/{name}", 3),
    ]


def test_an_event_that_can_t_be_had_is_lost_and_counted() -> None:
    api = Api()
    api.fails = RejectedError("forbidden", 403)
    metrics = recorded(api, Event("Normal", "A", "m"), Event("Normal", "B", "m"))
    assert lost(metrics) == 2


def test_an_event_is_one_printable_line_of_a_kib() -> None:
    api = Api()
    recorded(api, Event("Warning", "A", "gone\nNormal B fine\x1b[2J\u202e" + "é" * 1000))
    (made,) = api.made
    assert made["message"].isprintable()
    assert made["message"].startswith("gone Normal B fine?[2J?éé")
    assert len(made["message"].encode()) <= 1024


def test_an_event_that_is_a_fault_of_ours_costs_none_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    metrics = recorded(api, Event("Warning", "A", "half a character: \ud800"), Event("Normal", "B", "m"))
    assert [each["reason"] for each in api.made] == ["B"]
    assert lost(metrics) == 1
    assert "an event can't be written" in caplog.text


def test_events_hold_up_nobody() -> None:
    """Also when the API server does not answer for long: what is too much is lost."""
    api, metrics = Api(), Metrics()
    api.may_go_on.clear()
    one = Recorder(api, metrics)  # type: ignore[arg-type]
    one.start()
    for number in range(10_010):
        one.emit(JOB, Event("Normal", "A", str(number)))
    assert 8 <= lost(metrics) <= 10
    api.may_go_on.set()
    one.stop(20)
    assert len(api.made) + lost(metrics) == 10_010
