"""An operator that is told to end while it starts, beside an API server that accepts requests and answers none."""

from __future__ import annotations

import signal
import socket
import threading
from typing import TYPE_CHECKING

from operating import PATIENCE_S, Operator, api

if TYPE_CHECKING:
    from pathlib import Path

    from objects_api import ObjectsApi

    from tests.objects import Request

__all__ = ["api"]

KUBELET_S = 28  # before a pod's 30 s of grace are over


def test_it_ends_before_the_kubelet_kills_it_although_its_first_request_is_not_answered(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        Operator(tmp_path, deaf.getsockname()[1]) as operator,
        deaf.accept()[0],
    ):
        operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(KUBELET_S) == 0
    assert "Traceback" not in operator.said()


def test_a_leader_that_is_told_to_end_hands_over_although_no_list_is_answered(tmp_path: Path, api: ObjectsApi) -> None:
    over, met = threading.Event(), threading.Event()

    def hang(request: Request) -> bool:
        if request.verb == "list":
            met.set()
            over.wait(120)
        return True

    api.fault = hang
    with Operator(tmp_path, api.port, "--lease-namespace", "ours") as operator:
        assert met.wait(PATIENCE_S)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.process.wait(KUBELET_S) == 0
        assert api.objects.at(("leases", "ours", "mpi-agents-operator"))["spec"]["holderIdentity"] == ""
    over.set()
    assert "Traceback" not in operator.said()
