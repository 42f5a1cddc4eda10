"""What an exit status, a signal or a failure means for a session: the rules behind its states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted_exec import pod

from rshagent.session import decisions
from rshagent.session.decisions import Finish, Tries
from rshagent.session.engine import DEFAULT_LIMITS
from rshagent.stream.status import Failure

if TYPE_CHECKING:
    from agents.common.pods import Pod

NOW = 1000.0


@pytest.mark.parametrize(
    ("code", "has_output", "end"),
    [
        (0, False, (0, "the stream was lost, with the command's remaining output; it ended with 0")),
        (0, True, (255, "the command ended with 0, but the stream was lost, and output with it")),
        (1, False, (1, "")),
        (1, True, (1, "")),
        (None, False, (255, "the stream was lost, and how the command ended is unknown: no answer")),
        (None, True, (255, "the stream was lost, and how the command ended is unknown: no answer")),
    ],
)
def test_how_a_session_ends_that_lost_its_stream(code: int | None, has_output: bool, end: tuple[int, str]) -> None:
    step = decisions.settled(code, "no answer", has_output=has_output)
    assert (step.code, step.reason) == end


DAEMONS = {
    "Open MPI 4.1": b' orted -mca ess "\\"env\\""',
    "with a prefix": b"PATH=/opt/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/lib${X:-} ;  /usr/bin/orted -mca a b",
    "by a profile": b"( test ! -r ./.profile || . ./.profile; PATH=/x:$PATH ; export PATH ; orted -mca a b )",
    "Open MPI 5": b"PRTE_PREFIX=/opt;export PRTE_PREFIX;LD_LIBRARY_PATH=$LD_LIBRARY_PATH;/opt/bin/prted --prtemca a b",
    "MPICH": b'"/opt/mpich/bin/hydra_pmi_proxy" --control-port launcher:4 --rmk user',
    "Intel MPI": b"/opt/intel/bin/hydra_bstrap_proxy --upstream-host x",
}
COMMANDS = {
    "nothing": b"",
    "blanks and separators": b" ;; ( \n",
    "a program": b"echo the result",
    "Horovod": b"cd /work > /dev/null 2>&1 ; env A='b' OMPI_MCA_x='orted' PATH='/usr/bin' python train.py",
    "of a like name": b"/opt/orted-wrapper; myorted; orted.sh",
    "an argument": b"pgrep orted",
    "no text": bytes(range(256)),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [*((text, False) for text in DAEMONS.values()), *((text, True) for text in COMMANDS.values())],
    ids=[*DAEMONS, *COMMANDS],
)
def test_whether_a_streams_output_is_the_jobs(text: bytes, expected: bool) -> None:
    assert decisions.has_output(text, "") == expected
    assert decisions.has_output(text, "maybe") == expected
    assert decisions.has_output(text, "fail")
    assert not decisions.has_output(text, "warn")


LIMITS = DEFAULT_LIMITS | {"worker": 300.0, "absent": 60.0, "unready": 30.0}
PENDING = pod("1")._replace(phase="Pending", ready=False)
RUNNING = pod("1")._replace(ready=False)
NO_POD, NO_PHASE = "there is no such pod", "it is in no phase"


def unready(worker: Pod | None, waited_s: float, *, finds_workers: bool = False) -> float | Finish:
    return decisions.unready(worker, NOW, NOW + waited_s, LIMITS, finds_workers=finds_workers)


@pytest.mark.parametrize("finds_workers", [False, True])
@pytest.mark.parametrize(
    ("worker", "waited_s", "left_s"),
    [(PENDING, 0, 300), (PENDING, 299, 1), (RUNNING, 0, 30), (RUNNING, 29.5, 0.5), (RUNNING, 30, 0), (RUNNING, 400, 0)],
)
def test_how_long_a_worker_is_waited_for(worker: Pod, waited_s: float, left_s: float, finds_workers: bool) -> None:
    assert unready(worker, waited_s, finds_workers=finds_workers) == left_s


@pytest.mark.parametrize(("finds_workers", "limit_s"), [(False, 300), (True, 60)])
def test_one_that_is_not_there_is_waited_for_as_long_as_it_may_come_back(finds_workers: bool, limit_s: float) -> None:
    assert unready(None, limit_s - 1, finds_workers=finds_workers) == 1
    step = unready(None, limit_s, finds_workers=finds_workers)
    assert isinstance(step, Finish)
    assert (step.code, step.reason) == (255, f"the worker did not become ready within {limit_s:.0f} s: {NO_POD}")


@pytest.mark.parametrize(("phase", "state"), [("Pending", "it is Pending"), ("Failed", "it is Failed"), ("", NO_PHASE)])
def test_one_that_does_not_come_to_run_is_said_to_be_so(phase: str, state: str) -> None:
    step = unready(PENDING._replace(phase=phase), 300)
    assert isinstance(step, Finish)
    assert step.reason == f"the worker did not become ready within 300 s: {state}"


@pytest.mark.parametrize(
    ("number", "code", "reason", "sent"),
    [
        (1, 129, "ended by SIGHUP", "HUP"),
        (2, 130, "ended by SIGINT", "INT"),
        (3, 131, "ended by SIGQUIT", "QUIT"),
        (15, 143, "ended by SIGTERM", "TERM"),
        (13, 141, "stdout was closed by its reader", "TERM"),
        (40, 168, "ended by SIG40", "TERM"),
        (None, 255, "the client has died", "TERM"),
    ],
)
def test_what_a_signal_means(number: int | None, code: int, reason: str, sent: str) -> None:
    end = decisions.told_to_end(number)
    assert (end.code, end.reason, decisions.ends_by(number)) == (code, reason, sent)


def test_a_signal_either_ends_a_session_or_is_passed_on() -> None:
    assert not decisions.ENDING.keys() & decisions.PASSED_ON.keys()


def tries(limit_s: float = 120.0) -> Tries:
    tries = Tries()
    tries.begin(NOW, limit_s)
    return tries


@pytest.mark.parametrize(
    ("failure", "at_s", "is_last"),
    [
        (Failure("busy", retryable=True), 0, False),
        (Failure("busy", retryable=True), 119, False),
        (Failure("busy", retryable=True), 120, True),
        (Failure("busy", retryable=True, retry_after_s=60), 59, False),
        (Failure("busy", retryable=True, retry_after_s=60), 61, True),
        (Failure("busy", retryable=False), 0, True),
    ],
)
def test_which_try_is_the_last(failure: Failure, at_s: float, is_last: bool) -> None:
    step = tries().failed(failure, NOW + at_s)
    if is_last:
        assert isinstance(step, Finish)
        assert (step.code, step.reason) == (255, "busy")
    else:
        assert not isinstance(step, Finish)
        assert step >= (failure.retry_after_s or 0.05)


@pytest.mark.parametrize(
    ("failure", "patience_s"),
    [
        (Failure("forbidden", retryable=True, http_status=403), 5),
        (Failure("not found", retryable=True, http_status=404), 30),
        (Failure("container not found", retryable=True), 30),
    ],
)
def test_some_failures_are_worth_less_time_which_is_from_the_first_failure(failure: Failure, patience_s: float) -> None:
    begun = tries()
    assert not isinstance(begun.failed(Failure("busy", retryable=True), NOW + 10), Finish)
    assert not isinstance(begun.failed(failure, NOW + 10 + patience_s - 1), Finish)
    step = begun.failed(failure, NOW + 10 + patience_s)
    assert isinstance(step, Finish)
    assert step.reason == f"{failure.message} (3 tries)"


def test_all_tries_have_the_time_of_the_first() -> None:
    begun = tries(limit_s=20.0)
    begun.begin(NOW + 15, 20.0)
    assert begun.left_s(NOW + 15) == 5
    assert begun.left_s(NOW + 21) == 0
    assert isinstance(begun.failed(Failure("busy", retryable=True), NOW + 21), Finish)


def test_a_failure_may_bring_its_own_code() -> None:
    step = tries().failed(Failure("no shell", retryable=False, exit_code=127), NOW)
    assert isinstance(step, Finish)
    assert (step.code, step.reason) == (127, "no shell")
