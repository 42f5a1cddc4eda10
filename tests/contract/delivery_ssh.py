"""Delivery by ssh as a process of its own, and what it meets: names, listeners, sshds."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from typing import TYPE_CHECKING

from delivering import Delivery
from ssh_server import new_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BANNER = b"SSH-2.0-test\r\n"

# Names are looked up as ever, but those of the zone's file, which a test changes as it likes. "" is a DNS that is down.
BY_ZONE = """
import json, os, sys
from delivery.sshd import dns, wait, worker

wait.RESOLV_CONF = os.environ["ZONE"] + ".resolv.conf"
dns.PORT = int(os.environ.get("DNS_PORT", 53))
dns.TIMEOUT_S = float(os.environ.get("DNS_TIMEOUT_S", dns.TIMEOUT_S))
worker.CHECK_AGAIN_S = float(os.environ.get("CHECK_AGAIN_S", worker.CHECK_AGAIN_S))
look_up = dns.look_up

def by_zone(name):
    with open(os.environ["ZONE"] + ".asked", "a") as file:
        file.write(name + "\\n")
    with open(os.environ["ZONE"]) as file:
        addresses = json.load(file).get(name, [])
    if addresses == "":
        return dns.Found((), "Temporary failure in name resolution")
    return dns.Found(tuple(found for one in addresses for found in look_up(one).addresses))

dns.look_up = by_zone
from delivery.cli import main
main()
"""


class Launcher(Delivery):
    """With keys, a volume to prepare ssh in, and DNS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.zone, self.volume, self.keys = folder / "zone", folder / "volume", folder / "keys"
        for made in (self.volume, self.keys):
            made.mkdir()
        self.zone.write_text("{}")
        new_key(self.keys / "ssh-privatekey")
        (self.keys / "ssh-privatekey.pub").rename(self.keys / "ssh-publickey")
        self.environ |= {
            "MPI_AGENT_TRANSPORT": "ssh",
            "MPI_SSH_ROLE": "launcher",
            "MPI_SSH_KEYS": str(self.keys),
            "MPI_SSH_VOLUME": str(self.volume),
            "ZONE": str(self.zone),
        }

    def names(self, **addresses: list[str] | str) -> None:
        """Have DNS know these, by pod: a list of addresses, or "" where it gives no answer."""
        part = self.zone.with_suffix(".part")
        part.write_text(json.dumps({f"{pod.replace('_', '-')}.pi": at for pod, at in addresses.items()}))
        part.rename(self.zone)

    def names_asked(self) -> list[str]:
        """Whose addresses it has asked for."""
        path = self.folder / "zone.asked"
        return path.read_text().split() if path.exists() else []

    def hosts_are(self, *pods: str) -> None:
        part = self.hostfile.with_suffix(".part")
        part.write_text("".join(f"{pod}.pi slots=1\n" for pod in pods))
        part.rename(self.hostfile)

    def start(self, *arguments: str, ports: str) -> None:
        self.call([sys.executable, "-c", BY_ZONE, *arguments], {"MPI_SSH_PORTS": ports})

    def run(self, *arguments: str, ports: str) -> int:
        self.start(*arguments, ports=ports)
        return self.end()


class NameServer:
    """Says that there are no names, but those in `names`; or nothing at all while it `is_silent`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.names: frozenset[str] = frozenset()
        self.is_silent = False
        self.asked: list[tuple[str, int]] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            data, client = self._socket.recvfrom(512)
            if not data:  # closed
                return
            labels, at = [], 12
            while data[at]:
                labels.append(data[at + 1 : at + 1 + data[at]].decode())
                at += 1 + data[at]
            self.asked.append((".".join(labels), int.from_bytes(data[at + 1 : at + 3], "big")))
            rcode = 0 if self.asked[-1][0] in self.names else 3
            if not self.is_silent:
                self._socket.sendto(data[:2] + bytes((0x81, 0x80 | rcode)) + data[4:], client)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it has no peer, but who reads is woken all the same
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()  # else the kernel may repeat its read, by a number that is another file's by then
        self._socket.close()


class Listener:
    """Something that listens, and says `words` to whoever comes. `stays`: it does not close the connection."""

    def __init__(self, address: str, port: int, words: bytes = BANNER, *, stays: bool = False) -> None:
        self._socket = socket.create_server((address, port), backlog=1024)
        self._words, self._stays = words, stays
        self._open: list[socket.socket] = []
        self.came = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.came += 1
            connection.sendall(self._words)
            if self._stays:
                self._open.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        for connection in self._open:
            connection.close()


@contextlib.contextmanager
def listening(address: str, port: int, words: bytes = BANNER, *, stays: bool = False) -> Iterator[Listener]:
    listener = Listener(address, port, words, stays=stays)
    try:
        yield listener
    finally:
        listener.close()
