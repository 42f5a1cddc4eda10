"""Resume tokens, by which a hub finds the sessions of the one before it. The clients keep them: they are not secret.

The first line is JSON. The second, if any, names the MPI launcher that called the agent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rshagent.call.bootstrap import Mark
from rshagent.session.target import ExecTarget, Options

if TYPE_CHECKING:
    from rshagent.session.session import Session


def write(session: Session) -> bytes:
    """Return what finds a session again."""
    mark, target, caller = session.mark, session.target, session.options.caller
    parts = [target.namespace, target.pod, target.container, mark.launcher, mark.instance, mark.session]
    line = json.dumps([*parts, session.facts.pid, session.options.has_output])
    return (f"{line}\n{caller}" if caller else line).encode()


def read(token: bytes) -> tuple[ExecTarget, Mark, int | None, Options]:
    """Read a token, which came from outside: raises ValueError, TypeError or RecursionError for a bad one.

    The number is the bootstrap's process id. The caller may be any text.
    """
    line, _, caller = token.partition(b"\n")
    parts: Any = json.loads(line)
    namespace, pod, container, launcher, instance, session, pid, has_output = parts
    if not all(isinstance(part, str) for part in (namespace, pod, launcher, instance, session)):
        raise TypeError("a part of the resume token is no string")
    if not isinstance(container, str | None) or not isinstance(pid, int | None) or isinstance(pid, bool):
        raise TypeError("a part of the resume token has the wrong type")
    if not isinstance(has_output, bool):
        raise TypeError("a part of the resume token is neither true nor false")
    options = Options(has_output=has_output, caller=caller.decode("ascii", "replace"))
    return ExecTarget(namespace, pod, container), Mark(launcher, pod, instance, session), pid, options
