"""Which tools are copied, where from, and under which name.

`client` and `direct` are the rsh agent's two forms; any other name is a file of the tools folder (or, for kubectl and
the like, of PATH), and what has a slash is a path of its own. `SRC:DEST` names it in the target.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass

from delivery.exits import TOOL_MISSING, USAGE, DeliveryError
from delivery.target import copy_file

# /etc/mpi/kubexec.sh may begin with #!/opt/kube/rshagent, and the client looks beside itself for rshagent-direct.
_FILES = {"client": "rshagent", "direct": "rshagent-direct"}
DEFAULT = ("client",)


@dataclass(frozen=True, slots=True)
class Tool:
    """What to copy: `source` as asked for, `name` under the target folder."""

    source: str
    name: str


def parse(argument: str) -> Tool:
    """Read `NAME`, `PATH` or either with `:DEST`. Raises DeliveryError if DEST would lie outside the target."""
    source, colon, dest = argument.partition(":")
    name = dest if colon else os.path.basename(_FILES.get(source, source))
    if not source or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise DeliveryError(USAGE, f"{argument!r} names no tool: it takes NAME or PATH[:NAME-IN-TARGET]")
    return Tool(_FILES.get(source, source), name)


def copy(tool: Tool, folder: str, target: str) -> str:
    """Copy a tool into `target`; return a line that says so. Raises DeliveryError."""
    path = _find(tool.source, folder)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise DeliveryError(TOOL_MISSING, f"{path} can't be read: {error.strerror}{_offer(folder)}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise DeliveryError(TOOL_MISSING, f"{path} is not a file")
        dest = os.path.join(target, tool.name)
        return f"copied {path} to {dest}" if copy_file(fd, dest) else f"{dest} is there already"
    except OSError as error:
        raise DeliveryError(TOOL_MISSING, f"{path} can't be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _find(source: str, folder: str) -> str:
    if "/" in source:
        return source
    path = os.path.join(folder, source)
    # Our own client is never taken from PATH: the Python entry point there has the same name.
    if os.path.exists(path) or source in _FILES.values():
        return path
    return shutil.which(source) or path


def _offer(folder: str) -> str:
    """Say what the tools folder does have; "" if it can't be listed."""
    try:
        there = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return ""
    return f"; {folder} has {', '.join(there[:12]) or 'nothing'}"
