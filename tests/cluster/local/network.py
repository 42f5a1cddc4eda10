"""The pods' network: a bridge, and a way from it to the API server. Pods get no way off the machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BRIDGE = "mpi-agents0"
GATEWAY = "10.88.0.1"  # the node as pods see it, and their DNS server
# One that is not set is the lowest of the pods' own: it changes as they come and go, and then a pod that remembers the
# earlier one reaches neither DNS nor the API server for half a minute. The plugin sets none where the address is there.
_GATEWAY_MAC = "02:58:0a:58:00:01"
# So many that no run uses one twice: a pod that only listens does not announce itself, and the node sends what is for
# it to the address's last owner until it has asked again, which takes five seconds and longer than a probe waits.
SUBNET = "10.88.0.0/16"
API_SERVICE = "10.96.0.1"  # `kubernetes.default`; there is no kube-proxy, and so no other service address

_SYSTEM = Path("/proc/sys/net/ipv4")

_RULES = (
    ("nat", ("PREROUTING", "-i", BRIDGE, "-d", f"{API_SERVICE}/32", "-p", "tcp", "--dport", "443"),
     ("-j", "DNAT", "--to-destination", "127.0.0.1:6443")),
    ("filter", ("INPUT", "-i", BRIDGE, "-d", "127.0.0.0/8", "-m", "conntrack", "!", "--ctstate", "DNAT"),
     ("-j", "DROP")),
    # REJECT, not DROP: with DROP each look-up that goes astray costs mpirun its whole time-out.
    ("filter", ("FORWARD", "-i", BRIDGE, "!", "-o", BRIDGE), ("-j", "REJECT")),
)  # fmt: skip


_SETTINGS = {  # files under /proc/sys/net/ipv4; those that are the machine's get their old values back
    "ip_forward": "1",
    # All pods' neighbours share one table, and 1,024 entries don't do for 64 pods that all speak to each other.
    "neigh/default/gc_thresh3": "32768",
    "neigh/default/gc_thresh2": "16384",
    "neigh/default/gc_thresh1": "4096",
}


def up(run: Path) -> None:
    """Make bridge and routes, and in `run` the CNI configuration and notes of what must be undone."""
    if not _is_there():
        _run("ip", "link", "add", BRIDGE, "address", _GATEWAY_MAC, "type", "bridge")
        _run("ip", "addr", "add", f"{GATEWAY}/16", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    before = run / "settings.json"
    if not before.exists():
        before.write_text(json.dumps({name: _SYSTEM.joinpath(name).read_text() for name in _SETTINGS}))
    _set(_SETTINGS | {f"conf/{BRIDGE}/route_localnet": "1"})
    for table, (chain, *match), target in _RULES:
        if not _succeeds("iptables", "-w", "-t", table, "-C", chain, *match, *target):
            _run("iptables", "-w", "-t", table, "-A", chain, *match, *target)
    (run / "cni").mkdir(exist_ok=True)
    ranges = [[{"subnet": SUBNET}]]
    ipam = {"type": "host-local", "dataDir": f"{run}/ipam", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam}
    (run / "cni/10-pods.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}))


def down(run: Path) -> None:
    """Take away what `up` made, and the network namespaces of the pods that had addresses."""
    for table, (chain, *match), target in _RULES:
        _succeeds("iptables", "-w", "-t", table, "-D", chain, *match, *target)
    for namespace in _namespaces():
        _succeeds("ip", "netns", "del", namespace)
    if _is_there():
        _run("ip", "link", "del", BRIDGE)
    before = run / "settings.json"
    if before.exists():
        _set(json.loads(before.read_text()))


def _namespaces() -> list[str]:
    """The network namespaces whose interface has an address of ours: other programs' have such names as well."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout.splitlines()
    found = []
    for name in (line.split()[0] for line in names if line.startswith("cni-")):
        shown = ("ip", "-n", name, "-4", "-o", "addr", "show", "to", SUBNET)
        if subprocess.run(shown, capture_output=True, check=False).stdout.strip():
            found.append(name)
    return found


def _set(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        _SYSTEM.joinpath(name).write_text(value)


def _is_there() -> bool:
    return _succeeds("ip", "link", "show", BRIDGE)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
