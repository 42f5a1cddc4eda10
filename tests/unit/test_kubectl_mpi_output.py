"""What launchers print when they fail, as they were recorded: the first rank to fail, known mistakes, last lines."""

from __future__ import annotations

import time

import pytest

from agents.client.output import RankFailure, exception, failed_rank, last_lines, mistake, unnamed_failure
from agents.job.model import Implementation

RULER = "-" * 74
DOUBLE = "=" * 83
OPEN_MPI_4_CODE = f"""\
hello
{RULER}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULER}
{RULER}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[14290,1],0]
  Exit code:    3
{RULER}
"""
OPEN_MPI_4_SIGNAL = f"""\
{RULER}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULER}
{RULER}
mpirun noticed that process rank 1 with PID 0 on node pi-worker-0 exited on signal 11 (Segmentation fault).
{RULER}
"""
OPEN_MPI_4_TWO_CODES = OPEN_MPI_4_CODE.partition(f"{RULER}\nmpirun")[0]  # two ranks ended in the same moment
OPEN_MPI_4_UNKNOWN = f"""\
{RULER}
mpirun noticed that the job aborted, but has no info as to the process
that caused that situation.
{RULER}
"""
OPEN_MPI_5_CODE = f"""\
{RULER}
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-pi-launcher-28342@1,12]
   Exit code:    3
{RULER}
"""
OPEN_MPI_5_SIGNAL = f"""\
{RULER}
prterun noticed that process rank 1 with PID 28357 on node pi-worker-1.pi.default.svc exited on
signal 9 (Killed).
{RULER}
"""
OPEN_MPI_5_TAGGED = f"""\
[1,0]<stdout>: step 0
[1,1]<stderr>: out of luck
[1,1]<stderr>: {RULER}
[1,1]<stderr>: MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
[1,1]<stderr>:   Proc: [[41180,1],1]
[1,1]<stderr>:   Errorcode: 7
[1,1]<stderr>:\x20
[1,1]<stderr>: NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
[1,1]<stderr>: You may or may not see output from other processes, depending on
[1,1]<stderr>: exactly when Open MPI kills them.
[1,1]<stderr>: {RULER}
{RULER}
prterun has exited due to process rank 1 with PID 0 on node run-worker-1 calling
"abort". This may have caused other processes in the application to be
terminated by signals sent by prterun (as reported here).
{RULER}
"""
MPICH_SIGNAL = f"""\
{DOUBLE}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 28423 RUNNING AT pi-worker-0
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
{DOUBLE}
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""
MPICH_CODE = f"""\
{DOUBLE}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 9 RUNNING AT pi-worker-3
=   EXIT CODE: 11
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
{DOUBLE}
[proxy:2@pi-worker-2] main (proxy/pmip.c:123): demux engine error waiting for event
[mpiexec@pi-launcher] main (mpiexec/mpiexec.c:270): process manager error waiting for completion
"""
MPICH_ABORT = "Abort(7) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 7) - process 1\n"
INTEL_SIGNAL = f"""\
{DOUBLE}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 1 PID 28504 RUNNING AT pi-worker-0
=   KILLED BY SIGNAL: 9 (Killed)
{DOUBLE}
"""


DAEMONS = "ORTE was unable to reliably start one or more daemons. This usually is caused by: * not finding the"


@pytest.mark.parametrize(
    ("output", "failure", "text"),
    [
        (OPEN_MPI_4_CODE, RankFailure(0, exit_code=3), "rank 0 ended with exit code 3"),
        (
            OPEN_MPI_4_SIGNAL,
            RankFailure(1, "pi-worker-0", 11, "Segmentation fault"),
            "rank 1 on pi-worker-0 was killed by signal 11 (Segmentation fault)",
        ),
        (OPEN_MPI_5_CODE, RankFailure(12, exit_code=3), "rank 12 ended with exit code 3"),
        (
            OPEN_MPI_5_SIGNAL,
            RankFailure(1, "pi-worker-1.pi.default.svc", 9, "Killed"),
            "rank 1 on pi-worker-1 was killed by signal 9 (Killed)",
        ),
        (
            OPEN_MPI_5_TAGGED,
            RankFailure(1, exit_code=7, has_aborted=True),
            "rank 1 aborted the job (MPI_Abort) with exit code 7",
        ),
        (
            MPICH_SIGNAL,
            RankFailure(-1, "pi-worker-0", 11, "Segmentation fault"),
            "a rank on pi-worker-0 was killed by signal 11 (Segmentation fault)",
        ),
        (
            MPICH_CODE,
            RankFailure(-1, "pi-worker-3", exit_code=11, is_raw=True),
            "a rank on pi-worker-3 ended with exit code or signal 11",
        ),
        (
            MPICH_ABORT,
            RankFailure(1, exit_code=7, has_aborted=True),
            "rank 1 aborted the job (MPI_Abort) with exit code 7",
        ),
        (
            INTEL_SIGNAL,
            RankFailure(1, "pi-worker-0", 9, "Killed"),
            "rank 1 on pi-worker-0 was killed by signal 9 (Killed)",
        ),
    ],
)
def test_the_rank_that_failed_first(output: str, failure: RankFailure, text: str) -> None:
    found = failed_rank(output.splitlines())
    assert found == failure
    assert str(found) == text


@pytest.mark.parametrize("output", ["", "rank 3 of 4 on pi-worker-0", "signal 9 (Killed)"])
def test_other_output_names_no_rank(output: str) -> None:
    assert failed_rank(output.splitlines()) is None


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (OPEN_MPI_4_TWO_CODES, "1 process returned a non-zero exit code"),
        (OPEN_MPI_4_UNKNOWN, "the job aborted"),
        (OPEN_MPI_4_UNKNOWN.replace("aborted", "aborted by signal"), "the job aborted by signal"),
        (OPEN_MPI_5_CODE, ""),
        ("hello", ""),
    ],
)
def test_mpirun_may_name_no_rank(output: str, said: str) -> None:
    assert unnamed_failure(output.splitlines()) == said
    assert not said or failed_rank(output.splitlines()) is None


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("mpirun has detected an attempt to run as root.", "RunsAsRoot"),
        ("prterun has detected an attempt to run as root.", "RunsAsRoot"),
        (
            "There are not enough slots available in the system to satisfy the 200\nslots that were requested",
            "NotEnoughSlots",
        ),
        (
            "prterun was unable to find the specified executable file, and therefore did\nnot launch the job.",
            "ProgramNotFound",
        ),
        (
            "[proxy:0@vm] HYDU_create_process (launch.c:73): execvp error on file pi (No such file or directory)",
            "ProgramNotFound",
        ),
        ("ssh: Could not resolve hostname pi-worker-0.pi: Name or service not known", "HostNotResolved"),
        ("mpiuser@pi-worker-0: Permission denied (publickey).", "SshRefused"),
        ("Host key verification failed.", "SshRefused"),
        ("ssh: connect to host pi-worker-0 port 22: Connection refused", "SshNotListening"),
        ("bash: line 1: orted: command not found", "DaemonNotFound"),
        ("sh: 1: prted: not found", "DaemonNotFound"),
        (f"sh: 1: orted: not found {DAEMONS}", "DaemonNotFound"),
        (DAEMONS, "DaemonNotStarted"),
        ("write error: No space left on device", "NoSpace"),
    ],
)
def test_known_mistakes(output: str, reason: str) -> None:
    found = mistake(["epoch 1", *output.splitlines()])
    assert found is not None
    assert found.reason == reason
    assert found.remedy.endswith(".")


def test_of_several_mistakes_the_last_one_is_told() -> None:
    found = mistake(["ssh: Could not resolve hostname a: x", "No space left on device", "sh: 1: prted: not found"])
    assert found is not None
    assert found.reason == "DaemonNotFound"


@pytest.mark.parametrize(
    ("lines", "shown", "detail"),
    [
        (["a", "sh: 1: orted: not found", "-" * 70, "ORTE was unable"], "sh: 1: orted: not found", ""),
        (
            [
                "There are not enough slots available in the",
                "system to satisfy the 9",
                "the",
                "option to ignore the",
                "number of available slots",
            ],
            "There are not enough slots available in the",
            "",
        ),
        (["ssh: Could not resolve hostname a: x", "b"], "ssh: Could not resolve hostname a: x", " (a)"),
        (
            ["mpirun was unable to find the specified executable file, and", "Node: n", "Executable: pi"],
            "mpirun was unable to find the specified executable file, and",
            " (pi)",
        ),
    ],
)
def test_where_a_mistake_is_told(lines: list[str], shown: str, detail: str) -> None:
    found = mistake(lines)
    assert found is not None
    assert lines[found.line] == shown
    assert found.what.endswith(detail)


def test_a_program_of_its_own_makes_no_known_mistake() -> None:
    assert mistake(["Traceback (most recent call last):", "ValueError: out of luck"]) is None


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        (OPEN_MPI_4_CODE, ("hello",)),
        (f"one\n\ntwo\nthree\n{MPICH_SIGNAL}", ("two", "three")),
        (f"one\n\ntwo\nthree\n{MPICH_CODE}", ("two", "three")),
        (f"{OPEN_MPI_5_SIGNAL}after\n", ("after",)),
        (OPEN_MPI_5_TAGGED, ("[1,0]<stdout>: step 0", "[1,1]<stderr>: out of luck")),
        (INTEL_SIGNAL, ("=   RANK 1 PID 28504 RUNNING AT pi-worker-0", "=   KILLED BY SIGNAL: 9 (Killed)")),
        ("", ()),
    ],
)
def test_last_lines_are_the_programs_own_if_it_has_any(output: str, lines: tuple[str, ...]) -> None:
    assert last_lines(output.splitlines(), 2) == lines


@pytest.mark.parametrize(
    "line",
    [
        "Process name: [[1,1],{}] Exit code: 3",
        "MPI_ABORT was invoked on rank {} in communicator MPI_COMM_WORLD errorcode {}",
        "Abort({}) on node 1 (rank 1 in comm 0)",
        "noticed that process rank 1 with PID 0 on node n exited on signal {} (Killed)",
    ],
)
def test_a_number_of_any_length_is_no_error(line: str) -> None:
    failed_rank([line.replace("{}", "9" * 5000)])


def test_long_output_is_searched_in_no_time() -> None:
    """A pattern whose time grows with the square of the text takes ten seconds or more for this one."""
    began = time.process_time()
    assert mistake(["ssh" * 66_000]) is None
    assert time.process_time() - began < 2


RAISED = ("Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "app.BadShapeError: [3]")


@pytest.mark.parametrize(
    ("implementation", "tag"),
    [
        (Implementation.OPEN_MPI, ""),
        (Implementation.OPEN_MPI, "[1,3]<stderr>:"),
        (Implementation.OPEN_MPI, "[1,3]<stderr>: "),
        (Implementation.MPICH, "[3]<output>:"),
        (Implementation.INTEL, "[3] "),
        (Implementation.OPEN_MPI, "[rank3]: "),  # PyTorch's own
    ],
)
def test_an_exception_of_a_rank(implementation: Implementation, tag: str) -> None:
    handled = (
        *RAISED[:2],
        "KeyError: 'x'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
    )
    found = exception([f"{tag}{line}" for line in (*handled, *RAISED)], implementation)
    assert found is not None
    assert (found.rank, found.text) == (3 if tag else -1, RAISED[-1])
    assert [line.removeprefix("[rank3]: ") for line in found.lines[-3:]] == [*RAISED]


def test_of_several_ranks_the_first_one_counts() -> None:
    found = exception([f"[1,{rank}]<stderr>:{line}" for rank in (5, 3) for line in RAISED], Implementation.OPEN_MPI)
    assert found is not None
    assert found.rank == 5


@pytest.mark.parametrize(
    "lines", [RAISED[:2], RAISED[1:], (*RAISED[:2], RAISED[0]), ("Traceback: out of luck", "ValueError: x")]
)
def test_no_exception(lines: tuple[str, ...]) -> None:
    assert exception(lines, Implementation.OPEN_MPI) is None
