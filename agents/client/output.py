"""What launchers print when they fail: which rank failed first, and known mistakes with their remedies. Pure.

Texts are those of Open MPI 4.1 and 5.0 (mpirun, prterun), MPICH and Intel MPI, ssh and delivery. Open MPI wraps its
lines, so they are read as one text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agents.client.tags import RankOutput, ranks_of, untagged
from agents.job.model import Implementation

_RANKS_MAX = 8  # whose output is searched for an exception
_TEXT_MAX = 200_000  # characters: of the end of a log
_RULER = re.compile(r"[-=]{20,}")
_NOTICE = re.compile(  # what a launcher says of a failure, in general words
    r"\b(?:mpirun|prterun|mpiexec|orterun) (?:detected|noticed|has exited)|^Primary job +terminated|"
    r"^MPI_ABORT was invoked|BAD TERMINATION OF ONE|^YOUR APPLICATION TERMINATED",
    re.MULTILINE,
)
_HYDRA = re.compile(r"\[(?:proxy:\d+(?::\d+)?|mpiexec)@")  # where in its own source it fails

_RANKS = tuple(  # groups: rank, host, signal, name, code, aborted, raw. Repeats are bounded: a program prints anything
    re.compile(pattern)
    for pattern in (
        r"noticed that process rank (?P<rank>\d{1,9}) with PID \d{1,9} on node (?P<host>\S+) exited on "
        r"signal (?P<signal>\d{1,9}) \((?P<name>[^)]{1,80})\)",
        r"RANK (?P<rank>\d{1,9}) PID \d{1,9} RUNNING AT (?P<host>\S+) = KILLED BY "
        r"SIGNAL: (?P<signal>\d{1,9}) \((?P<name>[^)]{1,80})\)",
        r"MPI_ABORT was invoked on rank (?P<rank>\d{1,9}) .{0,120}?[Ee]rror ?code:? (?P<aborted>-?\d{1,9})",
        r"Abort\((?P<aborted>-?\d{1,9})\) on node \d{1,9} \(rank (?P<rank>\d{1,9}) in",
        r"due to process rank (?P<rank>\d{1,9}) with PID \d{1,9} on node (?P<host>\S+) calling \"abort\"",
        r"Process name: \[\S+,(?P<rank>\d{1,9})\] Exit code: (?P<code>\d{1,9})",
        r"PID \d{1,9} RUNNING AT (?P<host>\S+) = .{0,200}EXIT STRING: "
        r"(?P<name>[^(]{1,80}) \(signal (?P<signal>\d{1,9})\)",
        r"PID \d{1,9} RUNNING AT (?P<host>\S+) = EXIT CODE: (?P<raw>\d{1,9})",
    )
)

_UNNAMED = re.compile(  # where two ranks end in the same moment, Open MPI 4 often prints nothing else
    r"\bbut (?P<said>\d{1,9} process(?:es)? returned a non-zero exit code)|"
    r"noticed that (?P<aborted>the job aborted(?: by signal)?), but has no info as to the process"
)


@dataclass(frozen=True, slots=True)
class RankFailure:
    """The rank that failed first, as far as the launcher says it; -1, "" and None stand for what it does not say."""

    rank: int = -1
    host: str = ""
    signal: int | None = None
    signal_name: str = ""
    exit_code: int | None = None
    has_aborted: bool = False  # by MPI_Abort, its own or MPI's error handler's, with this exit code
    is_raw: bool = False  # MPICH's number alone: the exit code is one, or a signal

    def __str__(self) -> str:
        rank = f"rank {self.rank}" if self.rank >= 0 else "a rank"
        where = f" on {self.host.partition('.')[0]}" if self.host else ""
        if self.signal is not None:
            return f"{rank}{where} was killed by signal {self.signal} ({self.signal_name})"
        if self.has_aborted:
            return f"{rank}{where} aborted the job (MPI_Abort) with exit code {self.exit_code}"
        if self.exit_code is not None:
            return f"{rank}{where} ended with exit code {'or signal ' if self.is_raw else ''}{self.exit_code}"
        return f"{rank}{where} called MPI_Abort"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known mistake: one word for it, what it is, and what to do. `line`: where it is told, from the end."""

    reason: str
    what: str
    remedy: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class RankException:
    """A Python exception that was printed with its traceback. `rank` is -1 if nothing says whose it is.

    `lines`: the rank's, to the exception.
    """

    rank: int
    text: str
    lines: tuple[str, ...]


_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(  # PyTorch puts a rank before each line
    rf"^(?P<own>(?:\[rank(?P<rank>\d{{1,9}})\]: )?){re.escape(_TRACEBACK)}\n(?:(?P=own)[ \t].*\n){{1,200}}+"
    r"(?P=own)(?P<text>(?!Traceback )[A-Za-z_].*)$",
    re.MULTILINE,
)

_WORKER_LOST, _NOT_STARTED = "WorkerLost", "DaemonNotStarted"
UNREACHABLE = frozenset({_WORKER_LOST, _NOT_STARTED, "HostNotResolved", "SshNotListening"})
"""Mistakes that a worker may have caused that was not there."""


_MISTAKES = tuple(
    (re.compile(pattern), Mistake(reason, what, remedy))
    for pattern, reason, what, remedy in (
        (
            r"detected an attempt to run as root",
            "RunsAsRoot",
            "Open MPI refuses to run as root",
            "Add --allow-run-as-root to mpirun, or set runAsUser in both templates.",
        ),
        (
            r"not enough slots available in the system to satisfy|option to ignore the number of available slots",
            "NotEnoughSlots",
            "there are fewer slots than ranks",
            "Start fewer ranks, or raise slotsPerWorker or the number of workers.",
        ),
        (
            r"(?:unable to find the specified executable file|could not access or execute an executable)"
            r"(?:.{0,700}?Executable: (?P<detail>\S+))?|execvp error on file \S+ \(No such file",
            "ProgramNotFound",
            "a host does not have the program",
            "Check its path, and that the workers' image has it too.",
        ),
        (
            r"[Cc]ould not resolve hostname (?P<detail>[^\s:]+)|getaddrinfo\S{0,80} (?:failed|error)",
            "HostNotResolved",
            "the launcher can't resolve a worker's host name",
            "The workers may have started later: set launcherCreationPolicy: WaitForWorkersReady, or retry.",
        ),
        (
            r"Permission denied \(publickey|Host key verification failed",
            "SshRefused",
            "a worker's sshd refuses the job's key",
            "Check sshAuthMountPath, the user, and StrictModes in the image's sshd_config.",
        ),
        (
            r"connect to host (?P<detail>\S+) port \d+: Connection refused",
            "SshNotListening",
            "no sshd listens in a worker",
            "Does the workers' command start sshd on this port? With mpi-agents, transport: exec needs none.",
        ),
        (
            r"(?:sh: \d+: |line \d+: )?(?:orted|prted|hydra_bstrap_proxy|hydra_pmi_proxy): (?:command )?not found",
            "DaemonNotFound",
            "a worker's image lacks the MPI daemon, or does not have it on PATH",
            "Install the launcher's MPI in the workers' image too, and put it on PATH.",
        ),
        (
            r"(?:ssh|rsh)(?:: |\S{0,80} )(?:command )?not found|plm:rsh: .{0,40}not be found",
            "NoSsh",
            "the launcher's image has no ssh",
            "Install openssh-client in it; with mpi-agents, transport: exec needs none.",
        ),
        (
            r"lost communication with a remote daemon(?:.{0,200}?Remote daemon: \S+ on node (?P<detail>[^\s.]+))?",
            _WORKER_LOST,
            "mpirun lost a worker: its pod ended, or the network between them failed",
            "See by `kubectl mpi events` and the workers' restarts whether it was evicted, killed or deleted.",
        ),
        (
            r"No space left on device|unable to allocate shared memory|Bus error",
            "NoSpace",
            "a file system is full: often /dev/shm, which has 64 MiB by default",
            "Mount an emptyDir with medium: Memory at /dev/shm.",
        ),
    )
)
_NO_DAEMON = re.compile(r"unable to reliably start one or more daemons")  # Open MPI's notice after any of the causes
_UNKNOWN_CAUSE = Mistake(
    _NOT_STARTED,
    "mpirun could not start its daemon in a worker",
    "See whether all workers ran then (`kubectl mpi events`), and whether they have the launcher's MPI on PATH.",
)


def last_lines(lines: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the last lines that say something: the program's own, if there are any besides the launcher's notices."""
    parts: list[list[str]] = [[]]
    for line in (one.rstrip() for one in lines):
        text = untagged(line).strip()
        if _RULER.fullmatch(text):
            parts.append([])
        elif text and not _HYDRA.match(text):
            parts[-1].append(line)
    own = [line for part in parts if not _NOTICE.search("\n".join(map(untagged, part))) for line in part]
    return tuple((own or [line for part in parts for line in part])[-most:])


def lines_from(lines: Sequence[str], first: int, most: int) -> tuple[str, ...]:
    """Return the lines from one on that say something."""
    return tuple(one for one in lines[first:] if one.strip() and not _RULER.fullmatch(one.strip()))[:most]


def joined(lines: Iterable[str]) -> str:
    """Return lines as one text, without rulers, ranks' tags and line breaks."""
    return " ".join(_RULER.sub(" ", untagged("\n".join(lines)[-_TEXT_MAX:])).split())


def failed_rank(lines: Iterable[str]) -> RankFailure | None:
    """Return the rank that failed first, if a launcher names it in these lines."""
    text = joined(lines)
    found = (pattern.search(text) for pattern in _RANKS)
    match = next((one for one in found if one is not None), None)
    if match is None:
        return None
    given = match.groupdict()
    return RankFailure(
        int(given.get("rank") or -1),
        given.get("host") or "",
        _number(given.get("signal")),
        given.get("name") or "",
        _number(given.get("aborted") or given.get("code") or given.get("raw")),
        given.get("aborted") is not None,
        given.get("raw") is not None,
    )


def unnamed_failure(lines: Iterable[str]) -> str:
    """Return what mpirun says about a failure where it names no rank; "" if it says nothing of the kind."""
    match = _UNNAMED.search(joined(lines))
    return (match["said"] or match["aborted"]) if match else ""


def exception(lines: Sequence[str], implementation: Implementation) -> RankException | None:
    """Return the last Python exception of the first rank that shows one."""
    ranks = ranks_of(_TRACEBACK, lines, implementation)[:_RANKS_MAX]
    for rank, own in [(rank, RankOutput(rank, implementation).lines(lines)) for rank in ranks] or [(-1, iter(lines))]:
        text = "\n".join(line.rstrip() for line in own)[-_TEXT_MAX:].rstrip()
        if matches := [*_EXCEPTION.finditer(text)]:
            last = matches[-1]
            known = rank if rank >= 0 else int(last["rank"] or -1)
            return RankException(known, last["text"], tuple(text[: last.end()].splitlines()))
    return None


def mistake(lines: Iterable[str]) -> Mistake | None:
    """Return the known mistake that these lines show: of several the last, as a program survives the others."""
    cut = "\n".join(lines)[-_TEXT_MAX:].split("\n")
    text = joined(cut)
    found = [(match, one) for pattern, one in _MISTAKES for match in pattern.finditer(text)]
    found = found or [(match, _UNKNOWN_CAUSE) for match in _NO_DAEMON.finditer(text)]
    if not found:
        return None
    _, last = max(found, key=lambda one: one[0].start())
    match, one = min((told for told in found if told[1] is last), key=lambda one: one[0].start())  # where it begins
    detail = match.groupdict().get("detail")
    ends = itertools.accumulate(len(piece) + 1 if (piece := joined([line])) else 0 for line in cut)
    line = next(index for index, end in enumerate(ends) if end > match.start())
    return replace(one, what=f"{one.what}{f' ({detail})' if detail else ''}", line=line - len(cut))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
