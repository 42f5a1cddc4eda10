"""A DVM in a job in debug mode: its user logs in, starts it once, and runs many jobs in it; by exec and by ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.faults import until

if TYPE_CHECKING:
    from tests.cluster.virtual.login import Login

LOST_JOB = 'prun --map-by ppr:1:node sh -c "echo ranks run; sleep 600"; echo ended with $?'


@pytest.fixture(params=["exec", "ssh"])
def login(request: pytest.FixtureRequest, logins: dict[str, Login]) -> Login:
    return logins[request.param]


def test_ranks_start_without_a_dvm(login: Login) -> None:
    assert login.ranks("prterun --personality ompi") == dict(enumerate(sorted(login.workers * 2)))


def test_a_command_runs_in_a_worker(logins: dict[str, Login]) -> None:
    by_exec, by_ssh = logins["exec"], logins["ssh"]
    assert by_exec.run(f"/etc/mpi/kubexec.sh {by_exec.workers[1]} hostname") == f"{by_exec.workers[1]}\n"
    host = f"{by_ssh.workers[1]}.ssh.{by_ssh.namespace.name}"
    assert by_ssh.run(f"ssh {host} hostname") == f"{by_ssh.workers[1]}\n"


def test_many_jobs_run_in_one_dvm(login: Login) -> None:
    login.start_dvm()
    for _ in range(3):
        assert login.ranks() == dict(enumerate(sorted(login.workers * 2)))
    # A rank that ended immediately would keep prun waiting now and then (docs/rshagent.md).
    assert login.type("prun -n 1 sh -c 'pi || exit 99; exit 7'").code == 7
    login.end_dvm()
    assert login.type("prun -n 1 true").code != 0


def test_a_dvm_ends_with_a_node_and_the_next_one_has_its_replacement(login: Login) -> None:
    login.start_dvm()
    login.run(f"touch /tmp/lost; nohup sh -c '{LOST_JOB}' >/tmp/lost 2>&1 &")
    until("a job runs", lambda: login.run("cat /tmp/lost").count("ranks run") == len(login.workers))
    login.namespace.replace(login.workers[1])
    login.until_no_dvm()
    until("the job has ended", lambda: "ended with" in login.run("cat /tmp/lost"))
    assert not login.run("cat /tmp/lost").endswith("ended with 0\n")
    login.start_dvm()
    assert login.ranks() == dict(enumerate(sorted(login.workers * 2)))
    login.end_dvm()
