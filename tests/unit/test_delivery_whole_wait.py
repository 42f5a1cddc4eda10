"""The wait for sshds from start to end: which workers are probed again, and what it leaves behind."""

from __future__ import annotations

import gc
import io
import os
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from scripted_api import settle

from agents.common.loop import Loop
from delivery import wait_loop
from delivery.exits import DeliveryError
from delivery.sshd import dns
from delivery.sshd import worker as worker_module
from delivery.sshd.dns import Address, DnsProbe, Found, Resolver
from delivery.sshd.launcher import Files
from delivery.sshd.wait import SshdWait
from delivery.wait import Limits, Wait
from delivery.wait_loop import Progress, WaitLoop
from tests.keys import write_keys
from tests.ports import free_port
from tests.waiting import DEADLINE_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

HOSTS = ("127.0.0.2", "127.0.0.3")


class Sshds:
    """Something that says a version at all of the hosts, and counts who came."""

    def __init__(self, port: int) -> None:
        self.came = dict.fromkeys(HOSTS, 0)
        self._ending = ExitStack()
        for host in HOSTS:
            listener = self._ending.enter_context(socket.create_server((host, port)))
            thread = threading.Thread(target=self._serve, args=(host, listener), daemon=True)
            thread.start()
            self._ending.callback(thread.join)
            self._ending.callback(listener.shutdown, socket.SHUT_RDWR)

    def _serve(self, host: str, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.came[host] += 1
            with connection:
                connection.sendall(b"SSH-2.0-test\r\n")

    def close(self) -> None:
        self._ending.close()


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def sshds(port: int) -> Iterator[Sshds]:
    made = Sshds(port)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path, port: int) -> Files:
    for name in ("keys", "volume"):
        (tmp_path / name).mkdir()
    write_keys(tmp_path / "keys")
    environ = {"MPI_SSH_ROLE": "launcher", "MPI_SSH_PORTS": str(port)}
    made = Files({**environ, "MPI_SSH_KEYS": str(tmp_path / "keys"), "MPI_SSH_VOLUME": str(tmp_path / "volume")}, print)
    made.prepare()
    return made


def none_changed() -> list[str] | None:
    return None


def wait_for(
    loop: Loop,
    files: Files,
    hosts: Sequence[str],
    *,
    changed: Callable[[], list[str] | None] = none_changed,
    timeout_s: float | None = None,
) -> SshdWait:
    limits, progress = Limits(timeout_s=timeout_s), Progress(io.StringIO(), live=False)
    return SshdWait(loop, files, hosts=hosts, changed=changed, limits=limits, progress=progress)


def test_the_wait_ends_where_asking_takes_longer_than_an_answer_is_believed(
    sshds: Sshds, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "check_again_s", lambda workers: 0.0)
    loop = Loop()
    waiting = wait_for(loop, files, HOSTS)
    late: list[bool] = []

    def end() -> None:
        late.append(True)
        loop.stop()

    guard = loop.call_later(DEADLINE_S, end)
    found = waiting.run()
    guard.cancel()
    assert not late, f"asked again and again: {sshds.came}"
    assert [name for name, _ in found] == list(HOSTS)
    assert all(count <= 2 for count in sshds.came.values())


def test_a_worker_that_is_called_otherwise_is_still_known(
    sshds: Sshds, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts with the same first label are called by their whole names."""
    addresses = {"pi.a": HOSTS[0], "pi.b": HOSTS[1]}

    def look_up(name: str) -> Found:
        return Found((Address(socket.AF_INET, addresses[name]),) if name in addresses else ())

    monkeypatch.setattr(dns, "look_up", look_up)
    monkeypatch.setattr(wait_loop, "LOOK_S", 0.01)
    loop = Loop()

    def changed() -> list[str] | None:
        return ["pi.a", "pi.b"] if sshds.came[HOSTS[0]] else None

    waiting = wait_for(loop, files, ["pi.a", "none.a"], changed=changed, timeout_s=DEADLINE_S)
    assert [name for name, _ in waiting.run()] == ["pi.a", "pi.b"]


def test_one_that_is_renamed_again_and_again_is_looked_at_no_oftener(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def ask(_resolver: Resolver, name: str, on_done: Callable[[Found], None]) -> None:
        looks.append(name)
        on_done(Found(()))

    monkeypatch.setattr(Resolver, "ask", ask)
    monkeypatch.setattr(DnsProbe, "ask", lambda *_: False)

    def count(renamings: int) -> int:
        now = 0.0
        loop = Loop(lambda: now)
        waiting = wait_for(loop, files, [])
        waiting.follow(["pi.a"])
        for _ in range(renamings):
            waiting.follow(["pi.a", "pi.b"])
            waiting.follow(["pi.a"])
        looks.clear()
        for _ in range(100):
            now += 0.1
            settle(loop)
        waiting.close()
        return len(looks)

    assert count(8) == count(0) > 10


def test_a_wait_that_has_failed_leaves_no_threads_and_no_descriptors(files: Files) -> None:
    def fail() -> None:
        with pytest.raises(DeliveryError):
            wait_for(Loop(), files, HOSTS, timeout_s=0.0).run()

    def left() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    before = left()
    fail()
    until(
        lambda: all(now <= then for now, then in zip(left(), before, strict=True)),
        lambda: f"{before} were threads and descriptors, and are {left()}",
    )


def test_who_is_asked_again_for_long_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_loop, "HELD_S", 0.0)
    loop, stream = Loop(), io.StringIO()
    looks = iter([True, True, False])
    wait = Wait((), Limits(), loop.now())
    judged = WaitLoop(loop, wait, Progress(stream, live=False), holds=lambda: next(looks))
    judged.within(0.0)
    loop.run()
    assert stream.getvalue() == "0/0 ready after 0 s · probing those that answered first again\n"
    assert not list(looks)
