"""What a client's environment says of its session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rshagent.call import surroundings
from rshagent.call.bootstrap import Mark
from rshagent.session import decisions
from rshagent.session.target import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rshagent.call.parsed import Call

_SESSION_BYTES = 8


def new_mark(launcher: str, launcher_pod: str, worker_pod: str, instance: str) -> Mark:
    """Return the mark of a new session of a client's `instance`. Raises ValueError for what can't be part of one."""
    of_pod = surroundings.instance_of(launcher, launcher_pod, instance)
    return Mark(launcher, worker_pod, of_pod, os.urandom(_SESSION_BYTES).hex())


def options(
    call: Call, environ: Mapping[str, str], launcher: str, launcher_pod: str, instance: str, first_process: str
) -> Options:
    """Return what the client asks of its session; `first_process` is PID 1's start time if that outlives containers."""
    life = surroundings.life(environ, instance, first_process)
    return Options(
        has_output=decisions.has_output(call.text, environ.get("MPI_AGENT_LOST_OUTPUT", "")),
        text_by_stdin=surroundings.is_on(environ, "MPI_AGENT_TEXT_BY_STDIN"),
        wants_terminal=call.wants_terminal,
        is_traced=surroundings.is_on(environ, "MPI_AGENT_TRACE"),
        caller=environ.get("MPI_AGENT_CALLER", ""),
        life=surroundings.instance_of(launcher, launcher_pod, life) if life else "",
    )
