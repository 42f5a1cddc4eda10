"""What is run in the worker, and how it is found again: the request's command list, the marks, the control script.

The request is `/bin/sh -c BOOTSTRAP sh TEXT`. BOOTSTRAP travels in a URL with every launch and stands in the worker's
process table, so it is short; it uses sh's builtins alone, as a worker's image need have no more than `/bin/sh`. TEXT
runs in a shell of its own, so that its `$0`, `$@`, variables, traps and options are those of `/bin/sh -c TEXT`; what
it can see of us is MPI_AGENT_MARK, two more processes above it, and that it leads no process group.

The mark, `<launcher>:<pod>:<instance>:<session>:` in MPI_AGENT_MARK, is inherited by all that TEXT starts, daemons
too, and is read back from /proc/PID/environ. Out of its reach are processes of other users, those that were started
with, or wrote themselves, another environment, and those in a UTS namespace of their own. The bootstrap's own processes
have the mark in their command line instead: they outlive the tree that is signalled, and so can keep and return the
status. They are two, as a container runtime may kill the one that it started (`_bootstrap`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

SHORT_TEXT = 4096
"""Bytes of TEXT that go into the request's URL; longer ones go through stdin."""

MAX_ARGUMENT = 131071
"""Bytes of one argument of execve: MAX_ARG_STRLEN less its NUL (execve(2)). A longer TEXT is evaluated."""

STATUS_FILE = ".mpi-agent-status"
"""Lines of `session pid status`, in the first writable of STATUS_FOLDERS."""

STATUS_FOLDERS = '/dev/shm /tmp /var/tmp "$HOME"'  # noqa: S108  # shell text, and symbolic links aren't followed

UNREAD = 255
"""The exit status if stdin ended before TEXT was complete: nothing was started then."""

_PART = re.compile(r"[A-Za-z0-9._-]{1,400}")  # a pod's name has up to 253, and an instance holds one


class Mark:
    """Whose processes these are. An instance is one run of the launcher's container, a session one call of the agent.

    Raises ValueError for a part with anything but A-Z a-z 0-9 . _ -, as the parts become shell text.
    """

    __slots__ = ("instance", "launcher", "pod", "session")

    def __init__(self, launcher: str, pod: str, instance: str, session: str) -> None:
        for part in (launcher, pod, instance, session):
            if not _PART.fullmatch(part):
                raise ValueError(f"{part[:40]!a} can't be part of a mark")
        self.launcher = launcher
        self.pod = pod
        self.instance = instance
        self.session = session

    def __str__(self) -> str:
        return f"{self.launcher}:{self.pod}:{self.instance}:{self.session}:"

    @property
    def arms(self) -> str:
        """Return what `marked` looks for: the processes with this mark."""
        return f"{_pattern(str(self))})return 0"


class Marks(Mark):
    """All marks of a launcher in a pod, of whatever session, whose instances begin so and with none of `spared`."""

    __slots__ = ("_spared",)

    def __init__(self, launcher: str, pod: str, instances: str = "", spared: Iterable[str] = ()) -> None:
        super().__init__(launcher, pod, instances or "any", "any")
        self.instance, self._spared = instances, spared

    def __str__(self) -> str:
        return f"{self.launcher}:{self.pod}:{self.instance}"

    @property
    def arms(self) -> str:
        """Return what `marked` looks for."""
        return ";;".join([*[f"{_pattern(f'{self}{one}')})return 1" for one in self._spared], super().arms])


class Request(NamedTuple):
    """What an exec is asked for."""

    command: list[bytes]
    stdin: bytes
    """What is sent first, as soon as the stream is open; the acknowledgement comes after it was read."""
    needs_stdin: bool
    """Whether the exec has to be opened with a stdin: for TEXT, for the command's input, or for both."""


def request(
    text: bytes,
    mark: Mark,
    *,
    attempt: int = 0,
    sweep: bool = False,
    spared: Iterable[str] = (),
    forwards_stdin: bool = False,
    text_by_stdin: bool = False,
) -> Request:
    """Make the request that runs TEXT.

    `sweep`: first kill processes that earlier instances of the launcher left in this pod, except for those that begin
    with one of `spared`. `attempt` above 0: first kill what an earlier attempt may have started, as its acknowledgement
    can have been lost with its stream.
    """
    others = Marks(mark.launcher, mark.pod, spared=(f"{mark.instance}:", *spared)).arms if sweep else ""
    swept = _sweep(mark, others, attempt=attempt) if attempt or sweep else ""
    if not text_by_stdin and len(text) <= SHORT_TEXT and _is_utf8(text):
        script = _bootstrap(mark, swept, _acknowledge(mark, '"$_i"', 9))
        return Request(_command(script, text), b"", needs_stdin=forwards_stdin)
    read = _read(text.count(b"\n") + 1)
    source = "" if forwards_stdin else "</dev/null"
    if len(text) <= MAX_ARGUMENT:
        script = _bootstrap(mark, swept, read + 'set -- "$_t$_c";' + _acknowledge(mark, '"$_i"', 9), source)
        command = _command(script)
    else:
        evaluate = (f"exec {source};" if source else "") + 'eval "unset _n _t _l _c\n$_t$_c"'
        command = _command(_bootstrap(mark, swept), (read + _acknowledge(mark, "$PPID", 2) + evaluate).encode())
    return Request(command, text + b"\n", needs_stdin=True)


def acknowledgement(session: str) -> bytes:
    """How the line on stderr begins that says TEXT was started: a blank and the bootstrap's process id follow.

    What comes before it is noise of the bootstrap's own shell, such as bash's about a missing locale.
    """
    return b"mpi-agent " + session.encode()


def success(acknowledged: bytes) -> bytes:
    """The line on stderr, by what its acknowledgement begins with, that says TEXT ended with 0.

    An exit status of 0 alone proves nothing: an API server that loses the kubelet under a v5 stream reports
    success, since it takes an error channel without a message for one without an error.
    """
    return b"\x1e" + acknowledged + b" 0\n"


def control(mark: Mark, pid: int | None) -> list[bytes]:
    """Make the command list of a second exec that asks after a session and signals it.

    It answers lines on its stdin with one line each on stdout, and exits at `end` or at stdin's end. So the caller
    sets the intervals, and a worker needs no `sleep`.

    - `ask`: `alive`, or `exit N` with the kept status, or `gone`. pid is the acknowledged one; without it the session
      lives as long as anything carries its mark.
    - `signal NAME`: signals every process with the mark, bootstraps by KILL alone; `left N K` is how many there were,
      and K is 0 if none but bootstraps.
    - `count`: `left N K`.
    """
    alive = (
        "for p in /proc/[0-9]*;do m $p cmdline||m $p environ&&{ echo alive;return;};done;"
        if pid is None
        else f"m /proc/{pid} cmdline&&{{ echo alive;return;}};"
    )
    kept = f'"$s" = {mark.session}' if pid is None else f'"$s $p" = "{mark.session} {pid}"'
    script = (
        # containerd ends a command's stdin when its stdout or stderr ends: the one that leads nowhere is kept open.
        "exec 9>&2 2>/dev/null;"
        + marked(mark.arms)
        # The bootstrap has no mark in its environment, so it is not signalled and can report the tree's end. It counts,
        # as it may be about to start the tree, of which nothing is there yet.
        + "t(){ n=0 k=0;for p in /proc/[0-9]*;do if m $p environ;then kill -$1 ${p#/proc/}&&n=$((n+1)) k=$((k+1));"
        + "elif m $p cmdline;then n=$((n+1));[ $1 = KILL ]&&kill -9 ${p#/proc/};fi;done;echo left $n $k;};"
        # Alive first, kept status after: between the two it may end, but not before the first and unseen.
        + "a(){ "
        + alive
        + f'r=gone;for d in {STATUS_FOLDERS};do f=$d/{STATUS_FILE};[ -f "$f" ]&&'
        + f'while read -r s p e;do [ {kept} ]&&r="exit $e";done<"$f";done;echo $r;}};'
        + "while read -r c x;do case $c in ask)a;;signal)t $x;;count)t 0;;end)exit 0;;*)echo unknown;;esac;done;exit 0"
    )
    return [b"/bin/sh", b"-c", script.encode()]


def _command(script: str, *text: bytes) -> list[bytes]:
    return [b"/bin/sh", b"-c", script.encode(), b"sh", *text]


def _is_utf8(text: bytes) -> bool:
    """The CRI carries a command as protobuf strings, which refuse anything else."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bootstrap(mark: Mark, swept: str, before: str = "", source: str = "") -> str:
    return (
        # Shells report a child's death by signal on stderr, `/bin/sh -c TEXT` alone doesn't: ours leads nowhere.
        f"exec 9>&2 2>/dev/null;{swept}"
        # containerd 2 kills what it was asked to exec when its client is lost, and not the children: the one that waits
        # for TEXT and stores its status is a child. $$ is not its process id, its only task is. ksh93 makes a
        # process of a subshell only when that sets a trap. This one keeps a status whose `success` nobody reads; it is
        # none of '', which TEXT would inherit.
        + "(trap : PIPE;for _i in /proc/self/task/*;do _i=${_i##*/};done;"
        + before
        # bash, ksh, zsh and busybox count in SHLVL how deep they are nested. They, and not dash, have RANDOM.
        + '([ "$RANDOM" ]&&SHLVL=$((SHLVL-1));'
        + f"export MPI_AGENT_MARK={mark};"
        + f'exec /bin/sh -c "$1" 2>&9 9>&-{source});'
        # ksh says 256+N of a death by signal.
        + "s=$?;[ $s -gt 256 ]&&s=$((s-128));"
        + f"for d in {STATUS_FOLDERS};do f=$d/{STATUS_FILE};"
        + f'[ ! -h "$f" ]&&echo {mark.session} "$_i" $s>>"$f"&&break;done;'
        + f"[ $s = 0 ]&&echo '{success(acknowledgement(mark.session)).decode().rstrip()}'>&9;exit $s);"
        + "exit $?"
    )


def _acknowledge(mark: Mark, pid: str, stderr: int) -> str:
    """Nothing is started that nobody would hear of, and no status of it is kept."""
    echo = f"echo {acknowledgement(mark.session).decode()} {pid}>&{stderr}||"
    return f"{echo}exit;" if stderr == 9 else f"trap : PIPE;{echo}{{ kill -9 $PPID;exit;}};trap - PIPE;"


def _read(lines: int) -> str:
    """The fragment that reads TEXT from stdin, and nothing behind it.

    Its lines are counted, not ended by a marker: a marker could be part of TEXT, and a cut TEXT must not run.
    In the C locale, as bash loses bytes that are none of its locale's characters.
    Shells copy a string to append to it, so lines are gathered in sixties: else 100 kB of short lines took a minute.
    """
    return (
        f"_n={lines} _t= _c=;while IFS= LC_ALL=C read -r _l||exit {UNREAD};_c=$_c$_l;"
        '[ $((_n-=1)) -gt 0 ];do _c="$_c\n";[ $((_n%60)) = 0 ]&&{ _t=$_t$_c;_c=;};done;'
    )


def _sweep(mark: Mark, others: str, *, attempt: int) -> str:
    """The fragment that kills such processes, up to three times: a process may fork before it dies."""
    arms = [mark.arms if attempt else "", others]
    return (
        marked(";;".join(filter(None, arms)))
        + "for _r in 1 2 3;do _k=;for _p in /proc/[0-9]*;do [ $_p != /proc/$$ ]&&"
        + "{ m $_p cmdline||m $_p environ;}&&kill -9 ${_p#/proc/}&&_k=1;done;[ $_k ]||break;done;"
    )


def marked(arms: str) -> str:
    """The function m /proc/PID FILE: whether one of the files of a process carries a mark.

    Shells drop the NULs that they read, and dash asks the kernel for each byte: some 5 ms a process. So in a pod that
    sees its node's processes (hostPID), those of other hostnames are passed over unread.
    """
    return (
        "m(){ [ -e $1/ns/uts ]&&[ ! $1/ns/uts -ef /proc/$$/ns/uts ]&&return 1;"
        f'while _l=;IFS= read -r _l||[ "$_l" ];do case $_l in {arms};;esac;done<$1/$2;return 1;}};'
    )


def _pattern(beginning: str) -> str:
    """A mark's pattern, written so that a script that looks for the mark doesn't carry it."""
    return rf"*MPI_AGENT_MARK\={beginning}*"
