"""Direct mode: one launch without a hub, by the same engine, in a process of its own.

It starts as lightly as it can, because mpirun starts up to 128 at once: see `loop` and `tls` for what is not imported.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from rshagent.arguments import Call
    from rshagent.hosts import Worker
    from rshagent.podwatch import Trouble

_AGENT_FAILED = 255
_LIST_S = 10.0  # Horovod asks for hosts once a second: what takes longer is no answer


def main() -> int:
    """Be the rsh agent: `AGENT [options] [user@]HOST [options] COMMAND…`; return the exit code."""
    _give_back(os.environ)
    socket = os.environ.pop("MPI_AGENT_SERVE", "")
    if socket:  # a client wants a hub for all clients of its container
        from rshagent.hub import cli  # noqa: PLC0415

        os._exit(cli.serve_own(socket))
    argv = [os.fsencode(word) for word in sys.argv]
    name = os.environ.pop("MPI_AGENT_ARGV0", "")  # the name by which the client was called: kubexec.sh reads no stdin
    if name:
        argv[0] = os.fsencode(name)
    try:
        code = run(argv, os.environ)
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


def run(argv: list[bytes], environ: Mapping[str, str]) -> int:
    """Launch what `argv` says and return its exit code; our own failures are one line on stderr and 255."""
    from rshagent import arguments, hosts, surroundings  # noqa: PLC0415

    if arguments.asks_for_hosts(argv):
        return _discover(environ)
    if environ.get("MPI_AGENT_EXPLAIN"):
        from rshagent import explain  # noqa: PLC0415

        code = explain.explain(argv, environ)
        sys.stdout.flush()
        return code
    try:
        call = arguments.parse(argv)
        found = surroundings.resolver(environ).resolve(call.host, call.namespace)
    except (arguments.UsageError, hosts.UnknownHost) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename} can't be read: {error.strerror}")
    if isinstance(found, str):
        return _run_here(call)
    return _launch(call, found, environ)


def _discover(environ: Mapping[str, str]) -> int:
    """Print which hosts there are, by one list of the job's pods."""
    from rshagent import discovery, surroundings  # noqa: PLC0415
    from rshagent.cluster import Cluster, ConfigError  # noqa: PLC0415
    from rshagent.hosts import Resolver, parse_hostfile  # noqa: PLC0415
    from rshagent.loop import Loop  # noqa: PLC0415
    from rshagent.podwatch import PodWatch  # noqa: PLC0415

    loop, troubles = Loop(), []
    try:
        cluster = Cluster.load(environ)
        entries = parse_hostfile(surroundings.read(environ.get("MPI_AGENT_HOSTFILE") or surroundings.HOSTFILE) or b"")
    except ConfigError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename} can't be read: {error.strerror}")
    selector = environ.get("MPI_AGENT_SELECTOR") or None
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
        return _fail(f"the workers are not known: {(troubles or ['the API server does not answer'])[0]}")
    own = Resolver(None, {}, cluster.namespace, surroundings.own_names(environ))
    slots = discovery.slots_of(environ.get("MPI_AGENT_SLOTS") or "")
    found = discovery.lines(entries, watch.pods, own=own, slots=slots)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.flush()
    return 0


def _launch(call: Call, worker: Worker, environ: Mapping[str, str]) -> int:
    from rshagent import surroundings  # noqa: PLC0415
    from rshagent.bootstrap import Mark  # noqa: PLC0415
    from rshagent.cluster import Cluster, ConfigError  # noqa: PLC0415
    from rshagent.engine import Engine  # noqa: PLC0415
    from rshagent.execution import Where  # noqa: PLC0415
    from rshagent.launch import ENDING, PASSED_ON, Launch  # noqa: PLC0415
    from rshagent.loop import Loop  # noqa: PLC0415
    from rshagent.stdio import Stdio  # noqa: PLC0415

    loop = Loop()
    try:
        engine = Engine(
            loop,
            Cluster.load(environ),
            launcher=surroundings.launcher(environ),
            limits_text=environ.get("MPI_AGENT_LIMITS") or "",
            protocols_text=environ.get("MPI_AGENT_PROTOCOLS") or "",
        )
        instance = surroundings.instance_of(
            engine.launcher, surroundings.own_name(environ), surroundings.instance(environ)
        )
        mark = Mark(engine.launcher, worker.pod, instance, os.urandom(8).hex())
        where = Where(worker.namespace, worker.pod, call.container or environ.get("MPI_AGENT_CONTAINER") or None)
    except (ConfigError, ValueError) as error:
        return _fail(str(error))
    seen = f"/tmp/.mpi-agent-{mark.launcher}-{mark.instance}-{mark.pod}"  # noqa: S108 (O_EXCL follows no link)
    if os.path.lexists(seen):
        engine.swept(mark.pod, mark.instance)
    stdio = Stdio(loop, os.dup(0), os.dup(1), os.dup(2), reads_stdin=call.wants_stdin)
    launch = Launch(engine, where, mark, stdio, lambda _: loop.stop(), lambda _: None)
    launch.is_traced = surroundings.is_on(environ, "MPI_AGENT_TRACE")
    launch.wants_terminal = call.wants_terminal
    launch.text_by_stdin = surroundings.is_on(environ, "MPI_AGENT_TEXT_BY_STDIN")
    loop.on_signals((*ENDING, *PASSED_ON), launch.signal)
    launch.start(call.text)
    loop.run()
    if launch.times.acknowledged:
        _remember(seen)
    return launch.code


def _remember(path: str) -> None:
    """Note in the launcher that our instance has started something in a worker.

    Later launches need not look for what other instances left there: in a worker full of ranks that takes a while.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return


def _run_here(call: Call) -> int:
    """Run a command for the launcher itself, in this process's place."""
    if not call.wants_stdin:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
    import _signal  # type: ignore[import-not-found]  # noqa: PLC0415 (see `loop`)

    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # Python ignores them, and what it runs would inherit that
        _signal.signal(number, _signal.SIG_DFL)
    try:
        os.execv("/bin/sh", [b"/bin/sh", b"-c", call.text])
    except OSError as error:
        return _fail(f"/bin/sh can't be run here: {error.strerror}")


def _fail(text: str) -> int:
    sys.stderr.write(f"rshagent: {text}\n")
    return _AGENT_FAILED
