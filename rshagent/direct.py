"""Direct mode: one session without a hub, by the hub's code, in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from agents.common.loop import Loop
from agents.common.text import printable
from rshagent.call import arguments, discovery, explain, hosts, kubectl, kubectl_get, parsed, surroundings
from rshagent.hub import cli
from rshagent.net.cluster import Cluster, ConfigError
from rshagent.net.stdio import Stdio
from rshagent.pods.podwatch import PodWatch, Trouble
from rshagent.session import begin
from rshagent.session.engine import Engine
from rshagent.session.session import Session
from rshagent.session.target import ExecTarget

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from agents.common.pods import Pod
    from rshagent.call.hosts import Entry, Worker
    from rshagent.call.kubectl_get import Query
    from rshagent.call.parsed import Call

_AGENT_FAILED = 255
_LIST_S = 10.0  # Horovod asks for hosts once a second: what takes longer is no answer


def main() -> int:
    """Be the rsh agent: `AGENT [options] [user@]HOST [options] COMMAND…`; return the exit code."""
    mask = _launchers_mask(os.environ)
    _give_back(os.environ)
    socket = os.environ.pop("MPI_AGENT_SERVE", "")
    if socket:  # a client wants a hub for all clients of its container
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os._exit(cli.serve_own(socket))
    _take_signals(mask)
    _open_closed()
    argv = [os.fsencode(word) for word in sys.argv]
    name = os.environ.pop("MPI_AGENT_ARGV0", "")  # the name by which the client was called: kubexec.sh reads no stdin
    if name:
        argv[0] = os.fsencode(name)
    try:
        code = run(argv, os.environ, mask)
    except Exception as error:  # noqa: BLE001 (the process's edge)
        code = _fail(f"internal error: {type(error).__name__}")
    # Leaving by the interpreter's own way would free what the kernel frees faster.
    os._exit(code)


def _give_back(environ: MutableMapping[str, str]) -> None:
    """Put back what direct_start.c took out of its own loader's way: it is for what we run in this container."""
    for name in ("LD_PRELOAD", "LD_AUDIT", "LC_ALL"):
        value = environ.pop(f"MPI_AGENT_{name}", None)
        if value:
            environ[name] = value
        elif value is not None:
            environ.pop(name, None)


def _launchers_mask(environ: MutableMapping[str, str]) -> set[int]:
    """Return the signals that the launcher has blocked; direct_start.c says which, and has blocked all others, too."""
    now: set[int] = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        bits = int(environ.pop("MPI_AGENT_SIGNAL_MASK", ""), 16)
    except ValueError:
        return now
    return {number for number in signal.valid_signals() if bits >> (number - 1) & 1}


def _take_signals(mask: set[int]) -> None:
    """Have signals end us by an exit code, those as well that came before: nothing was started then.

    To Open MPI 5 an agent that dies of a signal is a success.
    """
    taken = _taken_signals()
    for number in taken:
        signal.signal(number, lambda number, _: os._exit(128 + number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask.difference(taken))


def _open_closed() -> None:
    """Put /dev/null in the place of a closed stdin, stdout or stderr: else a file of ours takes it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _taken_signals() -> list[int]:
    """Return the signals that are for us: none that is about a fault, stops us or does nothing, or that is ignored."""
    left = (4, 7, 8, 9, 11, 13, 17, 18, 19, 20, 21, 22, 23, 28)  # ILL, BUS, FPE, KILL, SEGV, PIPE, CHLD … WINCH
    return [
        number for number in signal.valid_signals() if number not in left and signal.getsignal(number) != signal.SIG_IGN
    ]


def run(argv: list[bytes], environ: Mapping[str, str], mask: set[int]) -> int:
    """Run what `argv` says and return its exit code; our own failures are one line on stderr and 255.

    `mask`: the signals that a command in this process's place is to have blocked.
    """
    if arguments.asks_for_hosts(argv):
        return _discover(environ)
    if environ.get("MPI_AGENT_EXPLAIN"):
        code = explain.explain(argv, environ)
        sys.stdout.flush()
        return code
    try:
        call = arguments.parse(argv)
        found = surroundings.resolver(environ).resolve(call.host, call.namespace)
    except (parsed.UsageError, hosts.UnknownHost) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename} can't be read: {error.strerror}")
    if call.query is not None:
        _answer(call, call.query, argv, environ)
    if isinstance(found, str):
        return _run_here(call, mask)
    return _start(call, found, environ)


class _Seen:
    """The job's hostfile and workers, by one list. Raises _Unseen."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        try:
            cluster = Cluster.load(environ)
            hostfile = surroundings.read(environ.get("MPI_AGENT_HOSTFILE") or surroundings.HOSTFILE)
        except ConfigError as error:
            raise _Unseen(str(error)) from None
        except OSError as error:
            raise _Unseen(f"{error.filename} can't be read: {error.strerror}") from None
        self.namespace, self.entries = cluster.namespace, hosts.parse_hostfile(hostfile or b"")
        self.own = hosts.Resolver(None, {}, cluster.namespace, surroundings.own_names(environ))
        selector = environ.get("MPI_AGENT_SELECTOR") or None
        found = _list(cluster, selector, self.entries)
        self.pods = discovery.workers(self.entries, found, own=self.own, by_selector=selector is not None)


class _Unseen(Exception):  # noqa: N818
    """Why the pods are not known: one line."""


def _list(cluster: Cluster, selector: str | None, entries: list[Entry]) -> dict[str, Pod]:
    loop, troubles = Loop(), []
    wanted = None if selector else discovery.names(entries)

    def meet(trouble: Trouble) -> None:
        troubles.append(trouble.message)
        loop.stop()

    watch = PodWatch(
        loop,
        cluster,
        cluster.namespace,
        selector=selector,
        wanted=wanted,
        on_change=lambda _: loop.stop(),
        on_trouble=meet,
    )
    watch.start()
    loop.call_later(_LIST_S, loop.stop)
    loop.run()
    if not watch.is_synced:
        raise _Unseen(f"the workers are not known: {(troubles or ['the API server does not answer'])[0]}")
    return watch.pods


def _answer(call: Call, query: Query, argv: list[bytes], environ: Mapping[str, str]) -> None:
    """Have the call print the job's workers, unless the real kubectl is there to do that."""
    if os.access(kubectl.real(argv), os.X_OK):
        return
    try:
        seen = _Seen(environ)
        call.text += query.answer(seen.pods.values(), seen.namespace, time.time())
    except _Unseen as error:
        call.text += kubectl_get.failure(str(error))


def _discover(environ: Mapping[str, str]) -> int:
    """Print which hosts there are."""
    try:
        seen = _Seen(environ)
    except _Unseen as error:
        return _fail(str(error))
    slots = discovery.slots_of(environ.get("MPI_AGENT_SLOTS") or "")
    found = discovery.lines(seen.entries, seen.pods, own=seen.own, slots=slots)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.flush()
    return 0


def _start(call: Call, worker: Worker, environ: Mapping[str, str]) -> int:
    loop = Loop()
    instance, pod = surroundings.instance(environ), surroundings.own_name(environ)
    try:
        engine = Engine(
            loop,
            Cluster.load(environ),
            launcher=surroundings.launcher(environ),
            limits_text=environ.get("MPI_AGENT_LIMITS") or "",
        )
        mark = begin.new_mark(engine.launcher, pod, worker.pod, instance)
        container = call.container or environ.get("MPI_AGENT_CONTAINER") or None
        target = ExecTarget(worker.namespace, worker.pod, container)
    except (ConfigError, ValueError) as error:
        return _fail(str(error))
    seen = f"/tmp/.mpi-agent-{mark.launcher}-{mark.instance}-{mark.pod}"  # noqa: S108 (O_EXCL follows no link)
    if os.path.lexists(seen):
        engine.swept(mark.pod, mark.instance)
    stdio = Stdio(loop, os.dup(0), os.dup(1), os.dup(2), reads_stdin=call.wants_stdin)
    engine.on_outage = lambda mark, message: stdio.say(f"rshagent: {mark.pod}: {message}")
    first_process = surroundings.shared_first_process()
    options = begin.options(call, environ, engine.launcher, pod, instance, first_process)
    session = Session(engine, target, mark, stdio, options, lambda _: loop.stop(), lambda _: None)
    loop.on_signals(_taken_signals(), session.signal)
    session.start(call.text)
    loop.run()
    if session.facts.acknowledged_at:
        _remember(seen)
    return session.facts.code


def _remember(path: str) -> None:
    """Note in the launcher that our instance has started something in a worker.

    Later launches need not look for what other instances left there: in a worker full of ranks that takes a while.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return


def _run_here(call: Call, mask: set[int]) -> int:
    """Run a command for the launcher itself, in this process's place."""
    if not call.wants_stdin:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what it runs would inherit that
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execv("/bin/sh", [b"/bin/sh", b"-c", call.text])
    except OSError as error:
        return _fail(f"/bin/sh can't be run here: {error.strerror}")


def _fail(text: str) -> int:
    sys.stderr.write(f"rshagent: {printable(text)}\n")
    return _AGENT_FAILED
