"""The pods' network: a bridge, and a way from it to the API server. Pods get no way off the machine."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BRIDGE = "cni0"
GATEWAY = "10.88.0.1"  # the node as pods see it, and their DNS server
SUBNET = "10.88.0.0/24"
API_SERVICE = "10.96.0.1"  # `kubernetes.default`; there is no kube-proxy, and so no other service address

_RULES = (
    ("nat", ("PREROUTING", "-i", BRIDGE, "-d", f"{API_SERVICE}/32", "-p", "tcp", "--dport", "443"),
     ("-j", "DNAT", "--to-destination", "127.0.0.1:6443")),
    ("filter", ("INPUT", "-i", BRIDGE, "-d", "127.0.0.0/8", "-m", "conntrack", "!", "--ctstate", "DNAT"),
     ("-j", "DROP")),
    # REJECT, not DROP: with DROP each look-up that goes astray costs mpirun its whole time-out.
    ("filter", ("FORWARD", "-i", BRIDGE, "!", "-o", BRIDGE), ("-j", "REJECT")),
)  # fmt: skip


# All pods' neighbours share one table, and 1,024 entries don't do for 64 pods that all speak to each other.
_NEIGHBOURS = {"gc_thresh1": "4096", "gc_thresh2": "16384", "gc_thresh3": "32768"}


def up(cni: Path, addresses: Path) -> None:
    """Make bridge, routes and the CNI configuration in `cni`; `addresses` is where the plugin notes what is taken."""
    if not _is_there():
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{GATEWAY}/24", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    _set({"ip_forward": "1", f"conf/{BRIDGE}/route_localnet": "1"})
    _set({f"neigh/default/{name}": value for name, value in reversed(_NEIGHBOURS.items())})
    for table, (chain, *match), target in _RULES:
        if not _succeeds("iptables", "-w", "-t", table, "-C", chain, *match, *target):
            _run("iptables", "-w", "-t", table, "-A", chain, *match, *target)
    cni.mkdir(parents=True, exist_ok=True)
    ranges = [[{"subnet": SUBNET}]]
    ipam = {"type": "host-local", "dataDir": str(addresses), "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam}
    (cni / "10-pods.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}))


def down() -> None:
    """Take away what `up` made, and the pods' own network namespaces; forwarding and a larger table stay allowed."""
    for table, (chain, *match), target in _RULES:
        _succeeds("iptables", "-w", "-t", table, "-D", chain, *match, *target)
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        if line.startswith("cni-"):
            _succeeds("ip", "netns", "del", line.split()[0])
    if _is_there():
        _run("ip", "link", "del", BRIDGE)


def _set(values: Mapping[str, str]) -> None:
    for name, value in values.items():
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(value)


def _is_there() -> bool:
    return _succeeds("ip", "link", "show", BRIDGE)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
