"""The `hosts` file beside the tools: this pod's own line of /etc/hosts, then `address<TAB>pod` for each worker.

Same form as kubectl-delivery's, which its users append to /etc/hosts and the agent reads to turn addresses into pods;
but in ordinal order, whole at any moment, and with a final newline.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ORDINAL = re.compile(r"(.*?)(\d*)")


def own_line(etc_hosts: str, hostname: str) -> str:
    """Return the last line that names `hostname`, else the last one (as upstream); without comments; "" if none.

    The kubelet writes a pod's own line last, unless its spec has hostAliases.
    """
    lines = [" ".join(bare.split()) for line in etc_hosts.splitlines() if (bare := line.partition("#")[0]).strip()]
    named = [line for line in lines if hostname and hostname in line.split(" ")[1:]]
    if not lines:
        return ""
    at, _, names = (named or lines)[-1].partition(" ")
    return f"{at}\t{names}"


def own_names(etc_hosts: str, hostname: str) -> set[str]:
    """Return this pod's names and addresses, as its hostname and its line of /etc/hosts tell them."""
    names = {hostname, hostname.partition(".")[0]} - {""}
    line = own_line(etc_hosts, hostname)
    if hostname in line.split():
        names.update(line.split())
    return names


def content(own: str, workers: Iterable[tuple[str, Sequence[str]]]) -> bytes:
    """Return the file's bytes for `(pod, addresses)`, in ordinal order: a line for each address of a pod."""
    lines = [own] if own else []
    for name, addresses in sorted(workers, key=lambda worker: _ordinal(worker[0])):
        lines += [f"{at}\t{name}" for at in addresses]
    return "".join(f"{line}\n" for line in lines).encode()


def _ordinal(name: str) -> tuple[str, int, str]:
    """Order worker-9 before worker-10."""
    match = _ORDINAL.fullmatch(name)
    stem, digits = match.groups() if match else (name, "")
    return stem, int(digits or -1), name
