"""`kubectl mpi` as a user calls it on the cluster under test."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.kube import Namespace

_LONGEST_S = 300.0
_LIES_MAX = 4
_PASSED_ON = ("exec", "cluster")  # their code is that of a command in a pod


def command(namespace: Namespace, *arguments: str) -> list[str]:
    """The words of a call in a namespace."""
    first = 2 if arguments[0] == "cluster" else 1
    return [
        *(sys.executable, "-m", "agents.kubectl_mpi", *arguments[:first]),
        *("--namespace", namespace.name, *arguments[first:]),
    ]


def kubectl_mpi(namespace: Namespace, *arguments: str, code: int = 0, stdin: str = "") -> str:
    """Call it; return stdout, or stderr if it is to fail with a code.

    An API server reports a command's code as success now and then (docs/faults.md): then it is called again.
    """
    call = command(namespace, *arguments)
    for _ in range(_LIES_MAX if code and arguments[0] in _PASSED_ON else 1):
        done = subprocess.run(call, input=stdin, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
        if done.returncode:
            break
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout
