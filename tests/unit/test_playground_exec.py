"""Execs in the stand-in, seen by a raw client: streams, exit codes, protocols, what is left behind."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from raw_api import ERROR, STDERR, STDIN, STDOUT, RawExec

from agents.playground import Cluster
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

V5 = "v5.channel.k8s.io"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_pod("w-0")
        cluster.create_pod("w-1", containers=("a", "b"), environ={"WHO": "pod"})
        yield cluster


@pytest.fixture(scope="module")
def token(cluster: Cluster) -> str:
    return cluster.token()


def sh(cluster: Cluster, token: str, script: str, **more: object) -> RawExec:
    return RawExec(cluster, "w-0", ["/bin/sh", "-c", script], token=token, **more)  # type: ignore[arg-type]


def test_streams_are_apart_and_the_status_comes_last(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "echo out; echo err >&2; exit 3", protocols=f"unknown, {V5}") as stream:
        assert stream.answer.status == 101
        assert stream.answer.headers["sec-websocket-protocol"] == V5
        assert stream.answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert stream.next() == (2, b"\x01"), "the empty frame that tells that the stream is there"
        status = stream.finish()
        assert (stream.output[STDOUT], stream.output[STDERR]) == (b"out\n", b"err\n")
        assert stream.close_code == 1000
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    words = "command terminated with exit code 3"
    assert status["message"] == f"command terminated with non-zero exit code: {words}"


def test_a_client_that_does_not_offer_v5_is_refused(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "true", protocols="v4.channel.k8s.io") as stream:
        assert stream.answer.status == 403


@pytest.mark.parametrize(("accept", "status"), [("application/json", 406), ("application/json, */*", 101)])
def test_a_client_that_accepts_json_alone_is_refused(cluster: Cluster, token: str, accept: str, status: int) -> None:
    with sh(cluster, token, "true", accept=accept) as stream:
        assert stream.answer.status == status


def test_stdin_is_half_closed(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "cat; echo end", stdin=True) as stream:
        stream.send(STDIN, b"one ")
        stream.send(STDIN, b"two ")
        stream.until(STDOUT, b"one two ")
        stream.send(255, bytes((STDIN,)))
        assert stream.finish()["status"] == "Success"
        assert stream.output[STDOUT] == b"one two end\n"


def test_stdin_that_nobody_reads_is_dropped(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "exec <&-; echo closed; read x </dev/null; exit 0", stdin=True) as stream:
        stream.until(STDOUT, b"closed")
        for _ in range(4):
            stream.send(STDIN, b"x" * 65536)
        assert stream.finish()["status"] == "Success"


def test_commands_have_the_pod_s_environment(cluster: Cluster, token: str) -> None:
    with RawExec(cluster, "w-1", ["sh", "-c", "echo $WHO $HOSTNAME"], token=token, container="b") as stream:
        stream.finish()
        assert stream.output[STDOUT] == b"pod w-1\n"


@pytest.mark.parametrize(
    ("pod", "container", "code", "words"),
    [
        ("w-9", "", 404, 'pods "w-9" not found'),
        ("w-1", "", 400, "a container name must be specified for pod w-1, choose one of: [a b]"),
        ("w-1", "c", 400, "container c is not valid for pod w-1"),
    ],
)
def test_what_the_api_server_refuses(
    cluster: Cluster, token: str, pod: str, container: str, code: int, words: str
) -> None:
    with RawExec(cluster, pod, ["true"], token=token, container=container) as stream:
        assert stream.answer.status == code
        assert stream.refusal() == words


def test_what_kubelet_refuses_comes_after_the_101(cluster: Cluster, token: str) -> None:
    cluster.create_pod("starting", state="pulling")
    with RawExec(cluster, "starting", ["true"], token=token) as stream:
        assert stream.answer.status == 101
        status = stream.finish()
        words = 'unable to upgrade connection: container not found ("worker")'
        assert status["message"] == f"Internal error occurred: {words}"
        assert status["reason"] == "InternalError"
    cluster.create_pod("pending", state="pending")
    with RawExec(cluster, "pending", ["true"], token=token) as stream:
        assert stream.answer.status == 400
        assert stream.refusal() == "pod pending does not have a host assigned"


def test_a_program_that_is_not_there(cluster: Cluster, token: str) -> None:
    with RawExec(cluster, "w-0", ["no-such-program"], token=token) as stream:
        message = stream.finish()["message"]
    assert message.startswith(
        "Internal error occurred: Internal error occurred: error executing command in container: "
    )
    assert message.endswith(': exec: "no-such-program": executable file not found in $PATH: unknown')
    with RawExec(cluster, "w-0", ["/no/sh", "-c", "true"], token=token) as stream:
        assert 'exec: "/no/sh": stat /no/sh: no such file or directory' in stream.finish()["message"]


def test_a_command_too_long_for_the_kernel(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "true " + "x" * 140_000) as stream:
        assert "argument list too long" in stream.finish()["message"]
    with sh(cluster, token, "echo ok # " + "x" * 120_000) as stream:
        assert stream.finish()["status"] == "Success"
        assert stream.output[STDOUT] == b"ok\n"


def test_a_terminal(cluster: Cluster, token: str) -> None:
    with sh(cluster, token, "stty size; read x; stty size; tty >/dev/tty; exit 5", tty=True, stdin=True) as stream:
        stream.send(4, b'{"Width":101,"Height":31}')
        stream.send(STDIN, b"go\r")
        status = stream.finish()
        assert status["details"]["causes"][0]["message"] == "5"
        assert b"31 101" in stream.output[STDOUT]
        assert b"/dev/pts/" in stream.output[STDOUT]
        assert stream.output[STDERR] == b""


def test_the_stream_waits_for_output_that_is_held_open(cluster: Cluster, token: str) -> None:
    """As in Kubernetes: a background process that keeps stdout keeps the stream."""
    with sh(cluster, token, "(sleep 0.3; echo late) & echo early; exit 4") as stream:
        status = stream.finish()
        assert stream.output[STDOUT] == b"early\nlate\n"
        assert status["details"]["causes"][0]["message"] == "4"


def shell_of_cat(cluster: Cluster, pod: str) -> int | None:
    """Return the shell's process id once its child, which looks like it at first, and then like nothing, is a cat."""
    found = {"".join(one.argv[:1]): one.pid for one in cluster.leftovers(pod)}
    return found["sh"] if found.keys() == {"sh", "cat"} else None


def test_a_closed_stream_leaves_the_command(cluster: Cluster, token: str) -> None:
    cluster.create_pod("orphans")
    with RawExec(cluster, "orphans", ["sh", "-c", "echo; cat; sleep 1000"], token=token, stdin=True) as stream:
        stream.until(STDOUT, b"\n")
        pid = until(lambda: shell_of_cat(cluster, "orphans"), "the shell waits for cat")
    cluster.until(lambda stats: stats["sessions"] == 0 and stats["running"] == 1)
    left = cluster.leftovers("orphans")
    assert pid in [one.pid for one in left]
    os.kill(pid, signal.SIGKILL)
    cluster.until(lambda stats: stats["running"] == 0)
    cluster.delete_pod("orphans")


def test_a_ping_is_answered_and_garbage_ends_the_stream(cluster: Cluster, token: str) -> None:
    cluster.create_pod("pinged")
    with RawExec(cluster, "pinged", ["sleep", "1000"], token=token) as stream:
        stream.send_frame(9, b"there?")
        frames = [stream.next(), stream.next()]
        assert (10, b"there?") in frames
        stream.stream.sendall(b"\xff\xff\xff\xff")
        stream.finish()
        assert stream.close_code == 1002
        assert stream.output[ERROR] == b""
    cluster.delete_pod("pinged")  # with its command, which may only start now
    cluster.until(lambda stats: stats["running"] == 0)


def test_commands_are_counted(cluster: Cluster, token: str) -> None:
    cluster.reset_stats()
    with sh(cluster, token, "echo hello; read x", stdin=True) as stream:
        stream.until(STDOUT, b"hello")
        stats = cluster.until(lambda stats: stats["running"] == 1)
        assert (stats["sessions"], stats["unacknowledged"]) == (1, 1)
        stream.send(STDIN, b"\n")
        stream.finish()
    stats = cluster.until(lambda stats: stats["sessions"] == 0)
    assert (stats["requests"]["exec"], stats["unacknowledged"]) == (1, 0)
