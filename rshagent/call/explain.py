"""MPI_AGENT_EXPLAIN: what a call would ask of whom, as one JSON object, with nothing started."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rshagent.call import surroundings
from rshagent.call.arguments import parse
from rshagent.call.bootstrap import Mark, Request, request
from rshagent.call.hosts import UnknownHost, Worker
from rshagent.call.parsed import Call, UsageError

EXAMPLE = Mark("launcher", "worker", "instance", "session")
"""The mark in what is shown: real ones are made at the start."""

FAILED = 255
"""ssh's exit status for failures of its own."""


def explain(argv: list[bytes], environ: Mapping[str, str]) -> int:
    """Print what a call would do; return the exit status."""
    try:
        call = parse(argv)
        worker = surroundings.resolver(environ).resolve(call.host, call.namespace)
    except (UsageError, UnknownHost) as error:
        print(f"rshagent: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"rshagent: can't read {error.filename}: {error.strerror}", file=sys.stderr)
        return FAILED
    print(json.dumps(describe(call, worker, environ)))
    return 0


def describe(call: Call, worker: Worker | str, environ: Mapping[str, str]) -> dict[str, object]:
    """Make the explanation's object.

    Bytes that are no UTF-8 are lone surrogates, so that os.fsencode makes them bytes again. All but the command is
    None where it runs on the launcher itself.
    """
    described: dict[str, object] = {"namespace": None, "pod": None, "container": None}
    if isinstance(worker, Worker):
        asked = request(
            call.text,
            EXAMPLE,
            forwards_stdin=call.wants_stdin,
            text_by_stdin=surroundings.is_on(environ, "MPI_AGENT_TEXT_BY_STDIN"),
        )
        described["namespace"] = worker.namespace
        described["pod"] = worker.pod
        described["container"] = call.container or environ.get("MPI_AGENT_CONTAINER") or None
    else:
        asked = Request([b"/bin/sh", b"-c", call.text], b"", needs_stdin=call.wants_stdin)
    described["command"] = [_text(word) for word in asked.command]
    described["ignored"] = call.ignored
    if asked.stdin:
        described["stdin"] = _text(asked.stdin)
    return described


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")
