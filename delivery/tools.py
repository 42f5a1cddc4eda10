"""Which tools are copied, where from, and under which name.

`client` is the rsh agent, `direct` the hub that it starts where none was set up, and `kubectl-exec` both, the client
under the name that other operators' kubexec.sh calls. Any other name is a file of the tools folder (or, for kubectl and
the like, of PATH), and what has a slash is a path of its own. `SRC:DEST` names it in the target.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass

from delivery.exits import TOOL_MISSING, USAGE, DeliveryError
from delivery.target import copy_file, copy_tree


@dataclass(frozen=True, slots=True)
class Tool:
    """What to copy: `source` as asked for, `name` under the target folder."""

    source: str
    name: str
    is_tree: bool = False
    is_optional: bool = False


# /etc/mpi/kubexec.sh may begin with #!/opt/kube/rshagent, and the client looks beside itself for rshagent-direct, which
# looks beside itself for python. The program that is called is copied last: once it is there, so is the rest.
_DIRECT = (Tool("python", "python", is_tree=True), Tool("rshagent-direct", "rshagent-direct"))
_GROUPS = {
    "client": (Tool("rshagent", "rshagent"),),
    "direct": _DIRECT,
    "kubectl-exec": (*_DIRECT, Tool("kubectl", "kubectl.real", is_optional=True), Tool("rshagent", "kubectl")),
}
_OURS = frozenset(("rshagent", "rshagent-direct", "python"))
_CALL = "/kubectl exec"
NONE = "none"  # alone on the command line: an image volume has the tools


def default(kubexec: str) -> tuple[str, ...]:
    """Return what is copied where nothing was asked for: that depends on what the operator's kubexec.sh calls."""
    return ("client", "kubectl-exec") if _CALL in kubexec else ("client",)


def parse(argument: str) -> tuple[Tool, ...]:
    """Read `NAME`, `PATH` or either with `:DEST`. Raises DeliveryError if DEST would lie outside the target."""
    source, colon, dest = argument.partition(":")
    group = _GROUPS.get(source) or (Tool(source, os.path.basename(source)),)
    if colon and len(group) > 1:
        raise DeliveryError(USAGE, f"{argument!r}: {source} is several files, whose names are fixed")
    if colon:
        group = (Tool(group[0].source, dest),)
    if not source or not {"", ".", ".."}.isdisjoint(group[-1].name.split("/")):
        raise DeliveryError(USAGE, f"{argument!r} names no tool: it takes NAME or PATH[:NAME-IN-TARGET]")
    return group


def copy(tool: Tool, folder: str, target: str) -> str:
    """Copy a tool into `target`; return a line that says so, "" for one that need not be. Raises DeliveryError."""
    path, dest = _find(tool.source, folder), os.path.join(target, tool.name)
    if tool.is_optional and not os.path.exists(path):
        return ""
    is_new = _copy_tree(path, dest, folder) if tool.is_tree else _copy_file(path, dest, folder)
    return f"copied {path} to {dest}" if is_new else f"{dest} is there already"


def _copy_tree(path: str, dest: str, folder: str) -> bool:
    if not os.path.isdir(path):
        raise DeliveryError(TOOL_MISSING, f"{path} is not a folder{_offer(folder)}")
    return copy_tree(path, dest)


def _copy_file(path: str, dest: str, folder: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise DeliveryError(TOOL_MISSING, f"{path} can't be read: {error.strerror}{_offer(folder)}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise DeliveryError(TOOL_MISSING, f"{path} is not a file")
        return copy_file(fd, dest)
    except OSError as error:
        raise DeliveryError(TOOL_MISSING, f"{path} can't be read: {error.strerror}") from None
    finally:
        os.close(fd)


def _find(source: str, folder: str) -> str:
    if "/" in source:
        return source
    path = os.path.join(folder, source)
    # Our own client is never taken from PATH: the Python entry point there has the same name.
    if os.path.exists(path) or source in _OURS:
        return path
    return shutil.which(source) or path


def _offer(folder: str) -> str:
    """Say what the tools folder does have; "" if it can't be listed."""
    try:
        there = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return ""
    return f"; {folder} has {', '.join(there[:12]) or 'nothing'}"
