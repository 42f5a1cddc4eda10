"""What a session is asked for: where its command runs, and its options."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(r"[a-z0-9.-]{1,253}")  # Kubernetes: DNS subdomain names


class ExecTarget:
    """A container to execute a command in; `container` None leaves the choice to the API server.

    Raises ValueError for names that Kubernetes does not allow: they become part of a request's path.
    """

    __slots__ = ("container", "namespace", "pod")

    def __init__(self, namespace: str, pod: str, container: str | None) -> None:
        for name in (namespace, pod, "x" if container is None else container):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name[:40]!a} is no name of a namespace, pod or container")
        self.namespace, self.pod, self.container = namespace, pod, container

    def __str__(self) -> str:
        return f"{self.pod}" + (f" ({self.container})" if self.container else "")


class Options(NamedTuple):
    """What the client asks of its session."""

    has_output: bool = True  # what the command writes is output of the job (`decisions.has_output`)
    text_by_stdin: bool = False  # send the command by stdin, not in the request
    wants_terminal: bool = False
    is_traced: bool = False
    caller: str = ""  # the MPI launcher that called the agent, as the client names it
    life: str = ""  # prefix of the instances that live as long as this one (`surroundings.life`)
