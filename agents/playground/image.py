"""What the image `mpi-agents` has, as a folder: the agents' commands, run from this checkout, and the client.

There are no other images here: a container's commands are the machine's. What the examples' images add, the program
`pi`, is here too.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from rshagent.native import client_build

from .launchers import PROGRAMS, ROOT, SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The hub needs the standard library alone.
_COMMANDS = {"rshagent-hub": "-S -m rshagent.hub", "mpi-delivery": "-m delivery", "mpi-worker": "-m agents.worker"}
_ANY_PORT = "export MPI_WORKER_PORT=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))"


def build(folder: str) -> None:
    """Make the image in a folder. Raises SetupError."""
    binaries, tools = os.path.join(folder, "bin"), os.path.join(folder, "tools")
    # Of the image, not of the user's environment: a container's own MPI_AGENT_TOOLS still wins.
    settings = f'export PYTHONPATH="{ROOT}" MPI_AGENT_TOOLS="${{MPI_AGENT_TOOLS-{tools}}}"'
    try:
        for one in (binaries, tools):
            os.makedirs(one, exist_ok=True)
        for name, words in _COMMANDS.items():
            # Pods share this machine's network. Which port the worker agent has matters to ssh jobs alone.
            more = f"{settings}\n{_ANY_PORT}" if name == "mpi-worker" else settings
            _script(binaries, name, f'{more}\nexec "{sys.executable}" {words} "$@"')
        _script(binaries, "pi", f'exec python "{PROGRAMS}/pi.py" "$@"')
        made = shutil.copy(client_build.kept("rshagent"), os.path.join(tools, ".rshagent"))
        os.replace(made, os.path.join(tools, "rshagent"))  # as a pod may run the old one
    except OSError as error:
        raise SetupError(f"{folder} can't be written to: {error.strerror}; choose another folder") from None
    except client_build.BuildError as error:
        raise SetupError(str(error)) from None


def environ(folder: str, base: Mapping[str, str]) -> dict[str, str]:
    """An environment with the image's commands in its PATH."""
    path = base.get("PATH", os.defpath)
    return {**base, "PATH": f"{os.path.join(folder, 'bin')}:{path}"}


def _script(folder: str, name: str, text: str) -> None:
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\n")
