"""The hostfile, which says who the workers are, and the `hosts` file, which says where they are.

A host of the hostfile is a pod's name, a DNS name that begins with one, or an address. Pod names may have dots (a job
may be called `a.b`), so how much of a DNS name is the pod's is known only from the pods: the longest part that exists.

The `hosts` file has this pod's own line of /etc/hosts, then `address<TAB>pod` for each worker. Its form is
kubectl-delivery's: users append it to /etc/hosts, and the agent reads it to turn addresses into pods. It is in ordinal
order, always complete, and ends with a newline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agents.common.files import WatchedFile
from agents.common.pods import Pod
from delivery.exits import HOSTFILE, DeliveryError
from rshagent.call.discovery import ordinal
from rshagent.call.hosts import Entry, Resolver, canonical_address, parse_hostfile, prefixes

# What a Job adds to its pods' names (k8s.io/apimachinery/pkg/util/rand: five characters).
_JOB_SUFFIX = re.compile(r"-[a-z0-9]{5}")


def read(path: str) -> bytes:
    """Return the hostfile's bytes. Raises DeliveryError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        hint = "set MPI_AGENT_HOSTFILE if it is elsewhere"
        raise DeliveryError(HOSTFILE, f"the hostfile {path} can't be read: {error.strerror}; {hint}") from None


def workers(data: bytes, own_names: frozenset[str]) -> list[Entry]:
    """Return the hosts to wait for, in the hostfile's order; none for a hostfile that names the launcher only.

    `own_names`: this pod's names and addresses. Upstream skips whatever ends in `launcher`; here a host is skipped if
    it is this pod, its Job, or `X-launcher` beside some `X-worker-…`, so a job's name may end in `launcher`.

    Raises DeliveryError for a file that has words in it but no host.
    """
    entries = parse_hostfile(data)
    if not entries and any(line.strip() and not line.strip().startswith(b"#") for line in data.splitlines()):
        raise DeliveryError(HOSTFILE, "the hostfile has no line that begins with a host")
    own = Resolver([], {}, "", own_names)
    labels = [entry.pod for entry in entries]
    return [entry for entry in entries if not _is_launcher(entry, own, own_names, labels)]


def hosts_in(namespace: str | None, entries: Iterable[Entry]) -> list[str]:
    """Return the entries' hosts. Raises DeliveryError for one of another namespace; None: ssh knows no namespaces."""
    for entry in entries:
        if entry.namespace not in (None, namespace):
            why = "which is not a host name for ssh"
            if namespace is not None:
                why = f"but delivery waits in namespace {namespace} only"
            raise DeliveryError(HOSTFILE, f"the hostfile names {entry.namespace}/{entry.host}, {why}")
    return [entry.host.lower() for entry in entries]


def _is_launcher(entry: Entry, own: Resolver, own_names: frozenset[str], labels: Sequence[str]) -> bool:
    if own.is_own(entry.host):
        return True
    for name in prefixes(entry.host.lower().rstrip(".")):
        if name.endswith("launcher") and any(_is_pod_of(name, own_name) for own_name in own_names):
            return True
    stem = entry.pod.removesuffix("-launcher")
    return stem != entry.pod and any(label.startswith(f"{stem}-worker-") for label in labels)


def _is_pod_of(name: str, pod: str) -> bool:
    """Whether a pod has this name, or that of a pod of a Job of this name."""
    return pod == name or (pod.startswith(name) and _JOB_SUFFIX.fullmatch(pod[len(name) :]) is not None)


class Changes:
    """Notices when a hostfile names other workers than `hosts`: its operator has changed their number."""

    def __init__(self, path: str, namespace: str | None, own_names: frozenset[str], hosts: list[str]) -> None:
        self._file = WatchedFile(path)
        self._namespace, self._own_names, self._hosts = namespace, own_names, hosts

    def look(self) -> list[str] | None:
        """Return the hosts that are wanted now, None while they are the same, or the file is missing or incomplete."""
        if not self._file.refresh() or self._file.data is None:
            return None
        try:
            hosts = hosts_in(self._namespace, workers(self._file.data, self._own_names))
        except DeliveryError:
            return None
        before, self._hosts = self._hosts, hosts
        return None if hosts == before else hosts


class Roster:
    """Knows which pod each wanted host means, as pods come and go."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._parts: dict[str, tuple[str, ...]] = {}
        self._by_part: dict[str, list[str]] = {}
        self._by_address: dict[str, str] = {}
        self._pod_at: dict[str, str] = {}
        for host in dict.fromkeys(hosts):
            at = canonical_address(host)
            if at is not None:
                self._by_address[at] = host
            self._parts[host] = parts = () if at is not None else tuple(prefixes(host.rstrip(".")))
            for part in parts:
                self._by_part.setdefault(part, []).append(host)

    @property
    def hosts(self) -> list[str]:
        """All wanted hosts, in order, each once."""
        return list(self._parts)

    @property
    def pod_names(self) -> frozenset[str] | None:
        """Every name that a wanted pod may have; None if it is known by its address only."""
        return None if self._by_address else frozenset(self._by_part)

    def touched(self, name: str, pod: Pod | None) -> list[str]:
        """Take the change of one pod; return the hosts that may mean it, or did."""
        hosts = list(self._by_part.get(name, ()))
        hosts += [host for host, pod_name in self._pod_at.items() if pod_name == name]
        if self._by_address and pod is not None and pod.phase not in ("Failed", "Succeeded"):
            for ip in pod.ips:
                host = self._by_address.get(canonical_address(ip) or ip)
                if host is not None:
                    self._pod_at[host] = name
                    hosts.append(host)
        return hosts

    def pod_of(self, host: str, pods: Mapping[str, Pod]) -> Pod | None:
        """Return the pod that a wanted host means among `pods`, or None while there is none."""
        for part in self._parts[host]:
            if part in pods:
                return pods[part]
        return pods.get(self._pod_at.get(host, ""))

    def display_names(self) -> dict[str, str]:
        """Return host → what people call it: the first label where that is enough to tell all hosts apart."""
        labels = {host: parts[-1] if parts else host for host, parts in self._parts.items()}
        return labels if len(set(labels.values())) == len(labels) else {host: host for host in labels}


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
    """Return this pod's names and addresses, from its hostname and its line of /etc/hosts."""
    names = {hostname, hostname.partition(".")[0]} - {""}
    line = own_line(etc_hosts, hostname)
    if hostname in line.split():
        names.update(line.split())
    return names


def hosts_content(own: str, workers: Iterable[tuple[str, Sequence[str]]]) -> bytes:
    """Return the file's bytes for `(pod, addresses)`, in ordinal order: a line for each address of a pod."""
    lines = [own] if own else []
    for name, addresses in sorted(workers, key=lambda worker: ordinal(worker[0])):
        lines += [f"{at}\t{name}" for at in addresses]
    return "".join(f"{line}\n" for line in lines).encode()
