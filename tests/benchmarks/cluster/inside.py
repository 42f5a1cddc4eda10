"""Runs in the launcher pod's user's container, on the Python that delivery puts there, and prints one JSON object.

    inside.py run NAME=VALUE... PROGRAM WORD...   what a program took: its own CPU, its children's, wall time
    inside.py burst PEER NAME=VALUE... POD...     `true` in these pods at once, by our client or a bare socket

That Python has few modules (no ssl, threading, subprocess), so this uses what is beneath them.
"""

from __future__ import annotations

import _socket
import _ssl
import _thread
import json
import os
import resource
import sys
import time

_CPUCLOCK_SCHED = 2  # clock ids made of a process id: kernel, include/linux/posix-timers_types.h
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SWITCHED, _NORMAL_CLOSE = b"HTTP/1.1 101", b"\x88\x02\x03\xe8"
_SAID_MAX = 2000
# Open MPI 4.1 closes every descriptor that there could be before it executes an agent: with 20,000 of them that takes
# three times the CPU of our client. This is what most shells allow.
_DESCRIPTORS = 1024


def run(words: list[str]) -> dict[str, object]:
    """One program to its end. Its own CPU is read while it is a zombie, before it is reaped."""
    _take_settings(words)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    output, errors = os.memfd_create("output"), os.memfd_create("errors")
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((_null(), output, errors))]
    began = time.perf_counter()
    pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    wall_s = time.perf_counter() - began
    own_s = time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    _, status, usage = os.wait4(pid, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "wall_s": wall_s,
        "own_cpu_s": own_s,
        "children_cpu_s": usage.ru_utime + usage.ru_stime - own_s,
        "lines": _content(output).count("\n"),
        "errors": _content(errors)[-_SAID_MAX:],
    }


def burst(peer: str, pods: list[str]) -> dict[str, object]:
    """`true` in all pods at once."""
    _take_settings(pods)
    bare = _Bare() if peer == "bare" else None
    began = time.perf_counter()
    failed = bare.all(pods) if bare else _processes(pods)
    return {"failed": failed, "wall_s": time.perf_counter() - began}


def _processes(pods: list[str]) -> list[str]:
    """Start our client for each pod; return the pods for which it failed."""
    null = _null()
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)]
    started = {}
    for pod in pods:
        argv = ["/opt/kube/rshagent", "-n", pod, "true"]
        started[os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)] = pod
    return [pod for pid, pod in started.items() if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


class _Bare:
    """The least that an exec can be: a TLS connection, the request, and bytes read until the close. A thread each."""

    def __init__(self) -> None:
        self._host, self._port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
        self._context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)
        self._context.load_verify_locations(f"{_ACCOUNT}/ca.crt", None, None)
        self._token, self._namespace = _read(f"{_ACCOUNT}/token"), _read(f"{_ACCOUNT}/namespace")
        self._failed: list[str] = []

    def all(self, pods: list[str]) -> list[str]:
        locks = []
        for pod in pods:
            lock = _thread.allocate_lock()
            lock.acquire()
            locks.append(lock)
            _thread.start_new_thread(self._one, (pod, lock))
        for lock in locks:
            lock.acquire()
        return self._failed

    def _one(self, pod: str, lock: _thread.LockType) -> None:
        try:
            if b'"status":"Success"' not in self._talk(pod):
                self._failed.append(pod)
        except OSError:
            self._failed.append(pod)
        finally:
            lock.release()

    def _talk(self, pod: str) -> bytes:
        connection = _Socket(_socket.AF_INET, _socket.SOCK_STREAM)
        connection.connect((self._host, self._port))
        tls = self._context._wrap_socket(connection, False, self._host)  # type: ignore[attr-defined]
        tls.do_handshake()
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/exec?command=true&stdout=true&stderr=true"
        tls.write(
            f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {self._token}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode()
        )
        seen = b""
        while _NORMAL_CLOSE not in seen and (data := tls.read(65536)):
            seen += data
            if not seen.startswith(_SWITCHED):
                break
        connection.close()
        return seen


class _Socket(_socket.socket):
    """TLS holds a weak reference to it."""


def _take_settings(words: list[str]) -> None:
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR)


def _content(fd: int) -> str:
    return os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    print(json.dumps(run(rest) if what == "run" else burst(rest[0], rest[1:])))
