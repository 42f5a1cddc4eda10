"""Texts and answers of the worker agent: metrics, JSON, HTTP, orders, settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.common.http_server import Response, encode, respond
from agents.worker import report, settings
from agents.worker.mounted import Commands
from agents.worker.orphans import Process
from agents.worker.report import PROCESSES_MAX, Status
from agents.worker.settings import Settings, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

RANK = Process(
    30, 1, 12, 99.0, "a.out", "running", 1000, rss_bytes=4096, cpu_s=1.5, rank=3, launch="pi:pi-launcher:1:s1:"
)
DENIED = Process(31, 1, 12, 99.0, 'say "hi"\\', is_denied=True)

ALONE = """\
# HELP mpi_worker_ready 1 while /readyz says yes.
# TYPE mpi_worker_ready gauge
mpi_worker_ready 1
# HELP mpi_worker_debug 1 while the order is debug.
# TYPE mpi_worker_debug gauge
mpi_worker_debug 0
# HELP mpi_worker_process_view 1 where the pod shares its process namespace.
# TYPE mpi_worker_process_view gauge
mpi_worker_process_view 0
"""

ALL = """\
# HELP mpi_worker_ready 1 while /readyz says yes.
# TYPE mpi_worker_ready gauge
mpi_worker_ready 0
# HELP mpi_worker_debug 1 while the order is debug.
# TYPE mpi_worker_debug gauge
mpi_worker_debug 1
# HELP mpi_worker_sshd_losses_total How often sshd stopped answering.
# TYPE mpi_worker_sshd_losses_total counter
mpi_worker_sshd_losses_total 2
# HELP mpi_worker_key_rotations_total Changes of the Secret's keys, by result.
# TYPE mpi_worker_key_rotations_total counter
mpi_worker_key_rotations_total{result="done"} 4
mpi_worker_key_rotations_total{result="failed"} 1
# HELP mpi_worker_process_view 1 where the pod shares its process namespace.
# TYPE mpi_worker_process_view gauge
mpi_worker_process_view 1
# HELP mpi_worker_processes Processes of the pod, by state.
# TYPE mpi_worker_processes gauge
mpi_worker_processes{state="running"} 1
mpi_worker_processes{state="sleeping"} 1
# HELP mpi_worker_processes_omitted Processes without series of their own.
# TYPE mpi_worker_processes_omitted gauge
mpi_worker_processes_omitted 0
# HELP mpi_worker_process_resident_bytes Resident memory of a process.
# TYPE mpi_worker_process_resident_bytes gauge
mpi_worker_process_resident_bytes{pid="30",name="a.out",rank="3"} 4096
mpi_worker_process_resident_bytes{pid="31",name="say \\"hi\\"\\\\",rank=""} 0
# HELP mpi_worker_process_cpu_seconds_total CPU time of a process.
# TYPE mpi_worker_process_cpu_seconds_total counter
mpi_worker_process_cpu_seconds_total{pid="30",name="a.out",rank="3"} 1.5
mpi_worker_process_cpu_seconds_total{pid="31",name="say \\"hi\\"\\\\",rank=""} 0
# HELP mpi_worker_leftovers Processes that have outlived their launch.
# TYPE mpi_worker_leftovers gauge
mpi_worker_leftovers 1
# HELP mpi_worker_leftovers_ended_total Leftover processes that were terminated.
# TYPE mpi_worker_leftovers_ended_total counter
mpi_worker_leftovers_ended_total 5
# HELP mpi_worker_denied Processes of another uid, by what it denies us.
# TYPE mpi_worker_denied gauge
mpi_worker_denied{what="environment"} 1
mpi_worker_denied{what="signal"} 6
"""
FULL = Status(
    is_ready=False,
    is_debug=True,
    has_sshd=True,
    sshd_losses=2,
    rotations=(4, 1),
    processes=[DENIED, RANK],
    orphans=frozenset({RANK.key}),
    orphans_ended=5,
    orphans_denied=6,
)


@pytest.mark.parametrize(("status", "text"), [(Status(is_ready=True, is_debug=False), ALONE), (FULL, ALL)])
def test_the_metrics(status: Status, text: str) -> None:
    assert report.metrics(status) == text


def test_ranks_and_the_largest_have_series_of_their_own() -> None:
    small = [Process(pid, 1, 1, 0.0, "a", rss_bytes=pid) for pid in range(1000, 1000 + PROCESSES_MAX)]
    text = report.metrics(FULL._replace(processes=[*small, RANK]))
    assert "mpi_worker_processes_omitted 1\n" in text
    assert text.count("mpi_worker_process_resident_bytes{") == PROCESSES_MAX
    assert 'pid="30"' in text
    assert 'pid="1000"' not in text


@given(st.text(alphabet='\n"\\{} a\udc80'))
def test_no_name_breaks_a_line(name: str) -> None:
    text = report.metrics(FULL._replace(processes=[RANK._replace(name=name)]))
    assert all(line.startswith(("# ", "mpi_worker_")) for line in text.split("\n")[:-1])
    text.encode()


def test_the_json() -> None:
    text = report.process_view(FULL, "sshd has ended")
    assert text.endswith("}\n")
    assert json.loads(text) == {
        "ready": False,
        "order": "debug",
        "message": "sshd has ended",
        "processes": [
            {
                "pid": 31,
                "ppid": 1,
                "name": 'say "hi"\\',
                "state": "sleeping",
                "uid": 0,
                "rss_bytes": 0,
                "cpu_s": 0.0,
                "rank": None,
                "launch": None,
                "leftover": False,
                "environment_denied": True,
            },
            {
                "pid": 30,
                "ppid": 1,
                "name": "a.out",
                "state": "running",
                "uid": 1000,
                "rss_bytes": 4096,
                "cpu_s": 1.5,
                "rank": 3,
                "launch": "s1",
                "leftover": True,
                "environment_denied": False,
            },
        ],
        "leftovers_ended": 5,
        "denied": {"environment": 1, "signal": 6},
    }


ROUTES = {"/healthz": lambda: Response(200, "ok\n")}


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (
            b"GET /healthz?x HTTP/1.1\r\nHost: a\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            b"Connection: close\r\n\r\nok\n",
        ),
        (
            b"HEAD /healthz HTTP/1.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
            b"Connection: close\r\n\r\n",
        ),
        (
            b"PUT /healthz HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 32\r\n"
            b"Allow: GET, HEAD\r\nConnection: close\r\n\r\nonly GET and HEAD are supported\n",
        ),
    ],
)
def test_http_answers(head: bytes, answer: bytes) -> None:
    assert encode(head, respond(head, ROUTES)) == answer


@given(st.binary())
def test_garbage_is_no_request(head: bytes) -> None:
    assert encode(head, respond(head, ROUTES)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 405 ", b"HTTP/1.1 404 "))


@pytest.mark.parametrize(
    ("texts", "lines", "order"),
    [
        ([""], [""], "run"),
        (["run", "debug\n", "debug", ""], ["", "order: debug", "", "order: run"], "run"),
        (
            ["debug", "halt", "halt", "stop", "halt", "debug", "halt"],
            [
                "order: debug",
                "order 'halt' is unknown: use run or debug; it stays debug",
                "",
                "order 'stop' is unknown: use run or debug; it stays debug",
                "order 'halt' is unknown: use run or debug; it stays debug",
                "",
                "order 'halt' is unknown: use run or debug; it stays debug",
            ],
            "debug",
        ),
        (["Debug"], ["order 'Debug' is unknown: use run or debug; it stays run"], "run"),
        (["a\nb\x1b"], [r"order 'a\nb\x1b' is unknown: use run or debug; it stays run"], "run"),
    ],
)
def test_orders(texts: list[str], lines: list[str], order: str) -> None:
    orders = Commands("/nowhere")
    assert [orders.take(text) for text in texts] == lines
    assert orders.order == order


def test_an_order_that_nobody_gives_is_run(tmp_path: Path) -> None:
    orders = Commands(str(tmp_path / "order"))
    assert orders.read() == ""
    (tmp_path / "order").write_bytes(b"\xff" * 100_000)
    assert len(orders.read()) < 500
    assert not orders.is_debug


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings()),
        (
            {"MPI_SSH_PORTS": "22 2222"},
            Settings((22, 2222), "/etc/mpi-ssh", "/mpi-ssh", socket="/mpi-ssh/run/worker.sock"),
        ),
        (
            {"MPI_SSH_PORTS": "20000", "MPI_SSH_KEYS": "/k", "MPI_SSH_VOLUME": "/v", "MPI_WORKER_PORT": "20001"},
            Settings((20000,), "/k", "/v", 20001, "/v/run/worker.sock"),
        ),
        (
            {"MPI_WORKER_SOCKET": "/s", "MPI_WORKER_ORDERS": "/o", "MPI_WORKER_GRACE": "2m"},
            Settings(socket="/s", commands="/o", grace_s=120.0),
        ),
        ({"MPI_SSH_PORTS": "2222", "MPI_WORKER_SOCKET": ""}, Settings((2222,), "/etc/mpi-ssh", "/mpi-ssh")),
    ],
)
def test_settings(environ: dict[str, str], expected: Settings) -> None:
    assert settings.read(environ) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MPI_WORKER_PORT", "0"),
        ("MPI_WORKER_PORT", "65536"),
        ("MPI_WORKER_PORT", "-1"),
        ("MPI_WORKER_PORT", "٣"),
        ("MPI_SSH_PORTS", "22,2222"),
        ("MPI_WORKER_GRACE", "-1s"),
        ("MPI_WORKER_GRACE", "1 week"),
    ],
)
def test_settings_that_cannot_be(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        settings.read({name: value})
