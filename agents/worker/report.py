"""The process view as JSON. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agents.worker import launches

if TYPE_CHECKING:
    from agents.worker.leftovers import Process
    from agents.worker.metrics import Status

NOT_SHARED = "the pod does not share its process namespace (shareProcessNamespace)"


def text(status: Status, words: str) -> str:
    """Return a status as one JSON object in a line; `words` is what /readyz says."""
    document: dict[str, object] = {
        "ready": status.is_ready,
        "order": "debug" if status.is_debug else "run",
        "message": words,
        "processes": None,
    }
    if status.processes is None:
        document["why_no_processes"] = NOT_SHARED
    else:
        document |= {
            "processes": [
                _process(process, is_leftover=process.key in status.leftovers) for process in status.processes
            ],
            "leftovers_ended": status.leftovers_ended,
            "denied": {
                "environment": sum(process.is_denied for process in status.processes),
                "signal": status.leftovers_denied,
            },
        }
    return json.dumps(document) + "\n"


def _process(process: Process, *, is_leftover: bool) -> dict[str, object]:
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "name": process.name,
        "state": process.state,
        "uid": process.uid,
        "rss_bytes": process.rss_bytes,
        "cpu_s": round(process.cpu_s, 2),
        "rank": process.rank,
        "launch": launches.session(process.launch) or None,
        "leftover": is_leftover,
        "environment_denied": process.is_denied,
    }
