"""A DVM while the API server is away; by exec and by ssh."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.faults import container, until

if TYPE_CHECKING:
    from tests.cluster.faults import Node
    from tests.cluster.virtual.login import Login

OUTAGE_S, JOB_S = 120, 10
JOBS = f"until [ -e /tmp/stop ]; do prun --map-by ppr:2:node sleep {JOB_S}; echo ended with $?; done; echo over"


@pytest.mark.release
def test_a_dvm_outlives_an_api_server_that_is_away_for_two_minutes(node: Node, logins: dict[str, Login]) -> None:
    launchers = [container(one.namespace, one.running.launcher, "mpi") for one in logins.values()]
    for login in logins.values():
        login.start_dvm()
        login.run(f"touch /tmp/jobs; nohup sh -c '{JOBS}' >/tmp/jobs 2>&1 &")

    def ends() -> list[list[str]]:
        return [launcher.read("/tmp/jobs").splitlines() for launcher in launchers]

    node.api_server.stop(signal.SIGKILL)
    enough = [len(before) + OUTAGE_S // JOB_S + 1 for before in ends()]  # one had begun before
    until("jobs have run", lambda: all(len(now) >= least for now, least in zip(ends(), enough, strict=True)), 400)
    node.start_api_server()
    by_exec = logins["exec"]
    log = by_exec.namespace.wait_log(by_exec.running.launcher, "hub", "the command runs", len(by_exec.workers))
    assert log.count("its exit is asked for until the API server answers, for at most 3600 s") == len(by_exec.workers)
    for launcher in launchers:
        launcher.touch("/tmp/stop")
    until("the last jobs have ended", lambda: all(lines[-1] == "over" for lines in ends()))
    assert {line for lines in ends() for line in lines[:-1]} == {"ended with 0"}
    for login in logins.values():
        assert login.ranks() == dict(enumerate(sorted(login.workers * 2)))
        login.end_dvm()
