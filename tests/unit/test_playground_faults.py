"""Each fault of the stand-in, seen by a raw client: what it promises is what happens on the wire."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from raw_api import ERROR, STDERR, STDOUT, RawExec, connect, receive, request

from agents.playground import Cluster, ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_workers(2, "w")
        yield cluster


@pytest.fixture(autouse=True)
def _clean(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.clear_faults()
    for name in ("w-0", "w-1"):
        for one in cluster.leftovers(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def token(cluster: Cluster) -> str:
    return cluster.token()


def sh(cluster: Cluster, token: str, script: str = "echo ack >&2; echo out", pod: str = "w-0", **more: Any) -> RawExec:
    return RawExec(cluster, pod, ["/bin/sh", "-c", script], token=token, **more)


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_http_errors(cluster: Cluster, token: str, status: int) -> None:
    cluster.fault("http", status=status, retry_after_s=2, times=2)
    for _ in range(2):
        with sh(cluster, token) as stream:
            assert stream.answer.status == status
            assert stream.answer.headers["retry-after"] == "2"
    with sh(cluster, token) as stream:
        assert stream.finish()["status"] == "Success"


def test_a_fault_is_of_one_pod(cluster: Cluster, token: str) -> None:
    cluster.fault("http", status=500, pod="w-1")
    answers = []
    for pod in ("w-0", "w-1", "w-1"):
        with sh(cluster, token, pod=pod) as stream:
            answers.append(stream.answer.status)
    assert answers == [101, 500, 101]


def test_drop_before_upgrade(cluster: Cluster, token: str) -> None:
    cluster.fault("drop-before-upgrade")
    with pytest.raises(ConnectionResetError):
        sh(cluster, token)


def test_drop_after_upgrade_starts_nothing(cluster: Cluster, token: str, tmp_path: Any) -> None:
    cluster.fault("drop-after-upgrade")
    with sh(cluster, token, f"touch {tmp_path}/started") as stream:
        assert stream.answer.status == 101
        with pytest.raises(ConnectionResetError):
            stream.next()
    assert not list(tmp_path.iterdir())


def test_drop_after_start_sends_nothing(cluster: Cluster, token: str, tmp_path: Any) -> None:
    cluster.fault("drop-after-start")
    with sh(cluster, token, f"touch {tmp_path}/started; echo ack >&2; sleep 1000") as stream:
        with pytest.raises(ConnectionResetError):
            stream.finish()
        assert stream.output == {STDOUT: b"", STDERR: b"", ERROR: b""}
    assert [path.name for path in tmp_path.iterdir()] == ["started"]
    assert cluster.leftovers("w-0")


def test_drop_after_start_of_a_silent_command(cluster: Cluster, token: str) -> None:
    cluster.fault("drop-after-start")
    with sh(cluster, token, "exit 0") as stream, pytest.raises(ConnectionResetError):
        stream.finish()


def test_drop_in_mid_stream(cluster: Cluster, token: str) -> None:
    cluster.fault("drop-mid-stream", after_bytes=100_000)
    with sh(cluster, token, "echo ack >&2; head -c 1000000 /dev/zero; sleep 1000") as stream:
        with pytest.raises(ConnectionResetError):
            stream.finish()
        assert stream.output[STDERR] == b"ack\n"


def test_hang_starts_nothing_but_answers_pings(cluster: Cluster, token: str, tmp_path: Any) -> None:
    cluster.fault("hang")
    with sh(cluster, token, f"touch {tmp_path}/started") as stream:
        assert stream.answer.status == 101
        assert answered(stream)
        assert not list(tmp_path.iterdir())


def test_no_answer(cluster: Cluster, token: str) -> None:
    cluster.fault("no-answer", on="list")
    with connect(cluster) as stream:
        stream.settimeout(0.3)
        stream.sendall(f"GET {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        with pytest.raises(TimeoutError):
            stream.recv(1)


def test_dial_error(cluster: Cluster, token: str) -> None:
    cluster.fault("dial-error")
    words = "error dialing backend: dial tcp 127.0.0.1:10250: connect: connection refused"
    with sh(cluster, token) as stream:
        assert stream.answer.status == 101
        status = stream.finish()
        assert (status["reason"], status["message"]) == ("InternalError", f"Internal error occurred: {words}")


def test_no_status(cluster: Cluster, token: str) -> None:
    cluster.fault("no-status")
    with sh(cluster, token) as stream:
        assert stream.finish() == {}
        assert (stream.output[STDOUT], stream.close_code) == (b"out\n", 1000)


@pytest.mark.parametrize("data", [b"", b"{", b"null", b"\xff\xfe", b'{"status":"Perhaps"}'])
def test_any_status(cluster: Cluster, token: str, data: bytes) -> None:
    cluster.fault("status", data=data)
    with sh(cluster, token) as stream:
        while stream.take():
            pass
        assert stream.output[ERROR] == data


def test_raw_bytes(cluster: Cluster, token: str) -> None:
    oversized = b"\x82\x7f" + (1 << 62).to_bytes(8, "big") + b"\x01"
    cluster.fault("raw", data=oversized, after_bytes=4)
    with sh(cluster, token, "echo ack >&2; sleep 1000") as stream:
        stream.until(STDERR, b"ack\n")
        data = b""
        while len(data) < len(oversized):
            data += receive(stream.stream)
        assert data == oversized


def test_slow(cluster: Cluster, token: str) -> None:
    cluster.fault("slow", bytes_per_s=20_000)
    began = time.monotonic()
    with sh(cluster, token, "head -c 5000 /dev/zero") as stream:
        assert stream.finish()["status"] == "Success"
        assert len(stream.output[STDOUT]) == 5000
    assert time.monotonic() - began >= 0.2, "5,000 bytes at 20,000 a second"


def answered(stream: RawExec, patience_s: float = 20.0) -> bool:
    """Whether a ping is answered in time."""
    stream.stream.settimeout(patience_s)
    try:
        stream.send_frame(9, b"?")
        while (frame := stream.next()) is not None:
            if frame == (10, b"?"):
                return True
    except TimeoutError:
        pass
    return False


@pytest.mark.parametrize("kind", ["half-open", "silent"])
def test_no_word_after_some_output(cluster: Cluster, token: str, kind: str, tmp_path: Any) -> None:
    cluster.fault(kind)
    script = f"echo ack >&2; until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo never; sleep 1000"
    with sh(cluster, token, script) as stream:
        stream.until(STDERR, b"ack")
        (tmp_path / "go").touch()
        assert not answered(stream, 0.5)
        assert stream.output[STDOUT] == b""


def test_streams_that_are_open_can_be_cut(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "echo; sleep 1000") as first, sh(cluster, token, "echo; sleep 1000", pod="w-1") as second:
        first.until(STDOUT, b"\n")
        second.until(STDOUT, b"\n")
        assert cluster.cut_streams("w-0"), "among them those that other tests have frozen"
        with pytest.raises(ConnectionResetError):
            first.finish()
        assert answered(second)


@pytest.mark.parametrize("on", ["list", "get", "watch"])
def test_faults_on_other_requests(cluster: Cluster, token: str, on: str) -> None:
    path = {"list": PODS, "get": f"{PODS}/w-0", "watch": f"{PODS}?watch=1"}[on]
    cluster.fault("http", on=on, status=503, retry_after_s=1, times=1)
    answer, _body = request(cluster, path, token)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    cluster.fault("drop-before-upgrade", on=on)
    with pytest.raises(ConnectionResetError):
        request(cluster, path, token)


def test_a_fault_that_there_is_none_of(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no fault 'droop' on exec; there are: dial-error"):
        cluster.fault("droop")
    with pytest.raises(ClusterError, match="no fault 'slow' on list"):
        cluster.fault("slow", on="list")


def test_a_server_that_is_suspended_answers_after_it_resumes(cluster: Cluster, token: str) -> None:
    cluster.suspend()
    try:
        with pytest.raises(TimeoutError):
            request_in(cluster, token, 0.3)
    finally:
        cluster.resume()
    assert request(cluster, PODS, token)[0].status == 200


def request_in(cluster: Cluster, token: str, timeout_s: float) -> None:
    import socket  # noqa: PLC0415
    import ssl  # noqa: PLC0415

    context = ssl.create_default_context(cafile=cluster.ca)
    with socket.create_connection(("127.0.0.1", cluster.port), timeout=timeout_s) as plain:
        context.wrap_socket(plain, server_hostname="127.0.0.1").close()
    assert token
