"""The first process of a pod of ssh_pods.py, in namespaces of its own: `unshare … python ssh_pod_init.py` and JSON.

It mounts what a kubelet would, says so on stdout, and stays until its stdin ends. /run, /root, /home and /dev are the
pod's own: nothing of this machine's is written to.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def main() -> None:
    spec = json.loads(sys.argv[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    _mount("-t", "proc", "proc", "/proc")
    for folder in ("/run", "/root", "/home"):
        _mount("-t", "tmpfs", "-o", "mode=0755", "pod", folder)
    os.chmod("/root", 0o700)
    _devices(spec["folder"])
    for target, source in spec["mounts"].items():
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        _mount("--bind", source, target)
    if spec["first_port"] is not None:
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "wb") as file:
            file.write(b"%d" % spec["first_port"])
    print("ready", flush=True)
    sys.stdin.read()


def _devices(folder: str) -> None:
    """Give the pod a /dev that has the termination log, and terminals of its own."""
    dev = os.path.join(folder, "dev")
    _mount("-t", "tmpfs", "-o", "mode=0755", "pod", dev)
    for name in _DEVICES:
        open(os.path.join(dev, name), "wb").close()
        _mount("--bind", f"/dev/{name}", os.path.join(dev, name))
    os.mkdir(os.path.join(dev, "pts"))
    _mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=0620,gid=5", "devpts", os.path.join(dev, "pts"))
    os.symlink("pts/ptmx", os.path.join(dev, "ptmx"))
    os.symlink("/proc/self/fd", os.path.join(dev, "fd"))
    log = os.path.join(dev, "termination-log")
    open(log, "wb").close()
    os.chmod(log, 0o666)  # as the kubelet makes it
    _mount("--rbind", dev, "/dev")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


main()
