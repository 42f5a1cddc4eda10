"""What the worker agent says where no sshd comes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from agents.common.loop import Loop
from agents.worker import sshd_monitor
from agents.worker.settings import Settings
from agents.worker.sock_diag import SockDiag
from agents.worker.sshd_monitor import SshdMonitor
from tests.ports import free_port
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_an_sshd_that_does_not_come_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshd_monitor, "LOGGED_AFTER_S", 0.0)
    loop, said, port = Loop(), list[str](), free_port()

    def say(line: str) -> None:
        said.append(line)
        loop.stop()

    with socket.create_server(("127.0.0.1", 0)) as known:
        settings = Settings(ports=(port,), volume=str(tmp_path))
        watched = SshdMonitor(loop, settings, SockDiag(known.getsockname()[1]), None, say)
        watched.look()
        loop.call_later(DEADLINE_S, loop.stop)
        loop.run()
        watched.close()
    assert len(said) == 1
    assert said[0].startswith(f"no sshd at port {port} yet: nothing listens there: see ")
