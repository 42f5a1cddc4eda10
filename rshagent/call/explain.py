"""MPI_AGENT_EXPLAIN: what a call would ask of whom, as one JSON object, with nothing started."""

from __future__ import annotations

from collections.abc import Mapping

from rshagent.call import surroundings
from rshagent.call.bootstrap import Mark, Request, request
from rshagent.call.hosts import Worker
from rshagent.call.parsed import Call, text_of

EXAMPLE = Mark("launcher", "worker", "instance", "session")
"""The mark in what is shown: real ones are made at the start."""


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
    described["command"] = [text_of(word) for word in asked.command]
    described["ignored"] = call.ignored
    if asked.stdin:
        described["stdin"] = text_of(asked.stdin)
    return described
