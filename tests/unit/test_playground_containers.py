"""Pods as containers: what the Docker engine is asked for, and how its streams are read."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from agents.playground import container_config
from agents.playground.engine_stream import Stream
from agents.playground.volumes import Mount

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
POD: Object = {"metadata": {"name": "pi-worker-0", "namespace": "default"}, "spec": {}}


def made(spec: Object, pod_spec: Object | None = None, *mounts: Mount) -> Object:
    return container_config.container(
        {**POD, "spec": pod_spec or {}},
        {"name": "mpi", "image": "my/app:1", **spec},
        environ={"RANKS": "4"},
        mounts=mounts,
        sandbox="0123",
        hosts="/run/hosts",
        termination_log="/run/mpi.log",
        cpus=2,
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"Image": "my/app:1", "Env": ["RANKS=4"]}),
        ({"command": ["mpirun", "-n", "$(RANKS)"]}, {"Entrypoint": ["mpirun", "-n", "4"], "Cmd": []}),
        ({"command": ["sh"], "args": ["-c", "$$x $(Y)"]}, {"Entrypoint": ["sh"], "Cmd": ["-c", "$x $(Y)"]}),
        ({"args": ["-v"]}, {"Cmd": ["-v"]}),
        ({"workingDir": "/data"}, {"WorkingDir": "/data"}),
        ({"securityContext": {"runAsUser": 0}}, {"User": "0"}),
        ({"securityContext": {"runAsUser": 1, "runAsGroup": 2}}, {"User": "1:2"}),
    ],
)
def test_a_container_s_program_and_user(spec: Object, expected: Object) -> None:
    found = made(spec)
    assert {key: found[key] for key in expected} == expected
    others = {"Entrypoint", "Cmd", "WorkingDir", "User"} - set(expected)
    assert others.isdisjoint(found)  # the image's


def test_the_pod_s_user_is_the_container_s_unless_it_has_its_own() -> None:
    pod = {"securityContext": {"runAsUser": 1000, "runAsGroup": 3000}}
    assert made({}, pod)["User"] == "1000:3000"
    assert made({"securityContext": {"runAsUser": 7}}, pod)["User"] == "7:3000"


@pytest.mark.parametrize(
    ("spec", "pod", "expected"),
    [
        ({}, {}, {"NetworkMode": "container:0123", "IpcMode": "container:0123", "Privileged": False}),
        ({}, {"shareProcessNamespace": True}, {"PidMode": "container:0123"}),
        ({}, {"securityContext": {"fsGroup": 5, "supplementalGroups": [4]}}, {"GroupAdd": ["4", "5"]}),
        ({"securityContext": {"allowPrivilegeEscalation": False}}, {}, {"SecurityOpt": ["no-new-privileges"]}),
        ({"securityContext": {"readOnlyRootFilesystem": True}}, {}, {"ReadonlyRootfs": True}),
        (
            {"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}},
            {},
            {"CapDrop": ["ALL"], "CapAdd": ["CHOWN"]},
        ),
        ({"resources": {"limits": {"cpu": "500m"}}}, {}, {"NanoCpus": 500_000_000}),
        ({"resources": {"limits": {"cpu": "64"}}}, {}, {"NanoCpus": 2_000_000_000}),  # as the machine has
        ({"resources": {"limits": {"memory": "1Gi"}}}, {}, {"Memory": 1 << 30, "MemorySwap": 1 << 30}),
    ],
)
def test_where_and_how_a_container_runs(spec: Object, pod: Object, expected: Object) -> None:
    host = made(spec, pod)["HostConfig"]
    assert {key: host[key] for key in expected} == expected


def test_a_container_sees_volumes_hosts_and_its_termination_log() -> None:
    found = made({"terminationMessagePath": "/tmp/end"}, None, Mount("/data", "/run/data", is_read_only=True))
    assert [(one["Target"], one["Source"], one["ReadOnly"]) for one in found["HostConfig"]["Mounts"]] == [
        ("/data", "/run/data", True),
        ("/etc/hosts", "/run/hosts", False),
        ("/tmp/end", "/run/mpi.log", False),
    ]


@pytest.mark.parametrize(("memory", "expected"), [("", None), ("1Gi", 1 << 30)])
def test_a_sandbox_has_the_host_name_and_the_shared_memory(memory: str, expected: int | None) -> None:
    pod = {**POD, "spec": {"hostname": "login"}}
    found = container_config.sandbox(pod, image="agents", network="run", shared_memory=memory)
    assert (found["Hostname"], found["HostConfig"]["NetworkMode"]) == ("login", "run")
    assert found["HostConfig"].get("ShmSize") == expected
    assert container_config.sandbox(POD, image="a", network="n", shared_memory="")["Hostname"] == "pi-worker-0"


class Engine:
    """A socket that answers one request with these bytes at once."""

    def __init__(self, folder: Path, answer: bytes) -> None:
        self.path = str(folder / "engine")
        self.received = b""
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._listener, self._listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(self._answer)
            while data := connection.recv(65536):
                self.received += data

    def join(self) -> None:
        self._thread.join(10)


def frame(kind: int, data: bytes) -> bytes:
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "is_raw", "out", "err"),
    [
        (frame(1, b"out") + frame(2, b"err") + frame(1, b"more"), False, b"outmore", b"err"),
        (frame(1, b"whole") + frame(1, b"cut off")[:-9], False, b"whole", b""),
        (b"a terminal's", True, b"a terminal's", b""),
    ],
)
def test_output_that_comes_with_the_answer_s_head_is_kept(
    tmp_path: Path, answer: bytes, is_raw: bool, out: bytes, err: bytes
) -> None:
    engine = Engine(tmp_path, UPGRADED + answer)
    stream = Stream.open(engine.path, "/exec/1/start", {}, is_raw=is_raw)
    stream.write(b"input")
    stream.end_input()
    ends = [open(tmp_path / name, "wb+") for name in ("out", "err")]  # noqa: SIM115
    engine.join()
    stream.copy_output(*(end.fileno() for end in ends))
    for end, expected in zip(ends, (out, err), strict=True):
        with end:
            end.seek(0)
            assert end.read() == expected
    assert engine.received == b"input"


def test_a_refused_stream_is_an_error(tmp_path: Path) -> None:
    engine = Engine(tmp_path, b'HTTP/1.1 404 Not Found\r\n\r\n{"message":"No such exec instance"}')
    with pytest.raises(OSError, match="No such exec instance"):
        Stream.open(engine.path, "/exec/1/start", {}, is_raw=False)
    engine.join()
