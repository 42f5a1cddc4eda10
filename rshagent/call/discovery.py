"""The hosts that elastic Horovod may use now: `rshagent --discover-hosts`, called by discover_hosts.sh.

The answer is a line `host:slots` for each worker that is Ready and is not being deleted, in ordinal order, with hosts
as the hostfile writes them. The hub answers from its watch. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from agents.common.pods import Pod
from rshagent.call.hosts import Entry, Resolver, canonical_address


def lines(entries: Iterable[Entry], pods: Mapping[str, Pod], *, own: Resolver, slots: int | None) -> list[str]:
    """Return the answer for a hostfile's entries and the job's pods (`workers`) as they are.

    `own` knows this pod's names: where the hostfile has one (runLauncherAsWorker), the launcher comes first. `slots`
    None: those of the hostfile; for a host that it does not have, those of its first one that has any, else 1.
    """
    entries = list(entries)
    known = _by_pod(entries, pods)
    default = slots or next((entry.slots for entry in entries if entry.slots), 1)
    suffix = _suffix(entries, known)
    found = [f"{entry.host}:{slots or entry.slots or default}" for entry in entries if own.is_own(entry.host)]
    ready = [name for name, pod in pods.items() if pod.ready and not pod.deleting and not own.is_own(name)]
    for name in sorted(ready, key=ordinal):
        entry = known.get(name)
        host, count = (entry.host, entry.slots) if entry is not None else (name + suffix, None)
        found.append(f"{host}:{slots or count or default}")
    return found


def workers(entries: Iterable[Entry], pods: Mapping[str, Pod], *, own: Resolver, by_selector: bool) -> dict[str, Pod]:
    """Return those of the pods that are workers of the job: a watch without a selector may see others' pods too."""
    known: Collection[str] = pods.keys() if by_selector else _by_pod(entries, pods)
    return {name: pod for name, pod in pods.items() if name in known and not own.is_own(name)}


def ordinal(name: str) -> tuple[str, int, str]:
    """Order worker-2 before worker-10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1), name


def answer(found: Iterable[str]) -> bytes:
    """Return the shell text by which the client prints an answer: the hub must not wait for a client's stdout."""
    words = " ".join(f"'{line}'" for line in found)  # of letters, digits and `.-_:` alone
    return f"printf '%s\\n' {words}".encode() if words else b":"


def names(entries: Iterable[Entry]) -> frozenset[str] | None:
    """Return every name that a pod of these hosts may have; None if one is an address, which only its pod shows."""
    entries = list(entries)
    if any(canonical_address(entry.host) for entry in entries):
        return None
    return frozenset(entry.pod for entry in entries) | frozenset(entry.host for entry in entries)


def _by_pod(entries: Iterable[Entry], pods: Mapping[str, Pod]) -> dict[str, Entry]:
    """Find the entry of each pod: a name may be the beginning of a DNS name, and have dots of its own."""
    addresses = {canonical_address(ip): name for name, pod in pods.items() for ip in pod.ips}
    found: dict[str, Entry] = {}
    for entry in entries:
        name = entry.host.lower()
        address = canonical_address(name)
        if address:
            name = addresses.get(address, "")
        while name and name not in pods:
            name = name.rpartition(".")[0]
        if name:
            found.setdefault(name, entry)
    return found


def _suffix(entries: Collection[Entry], known: Mapping[str, Entry]) -> str:
    """Return what the hostfile writes behind a pod's name: `.service.namespace.svc`, or nothing."""
    for name, entry in known.items():
        if not canonical_address(entry.host):
            return entry.host[len(name) :]
    for entry in entries:
        if not canonical_address(entry.host):
            return entry.host[len(entry.pod) :]
    return ""
