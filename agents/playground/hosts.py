"""The pods' hosts file: the cluster's names, as its DNS would tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Mapping

    from .kubelet import LivePod


class HostsFile:
    """One file for all pods, rewritten in place: they have the very file mounted."""

    def __init__(self, loop: AbstractEventLoop, path: str, live: Mapping[tuple[str, str], LivePod]) -> None:
        self.path = path
        self._loop = loop
        self._live = live
        self._is_due = False
        self._write()

    def change(self) -> None:
        """Write it soon: once for many pods that come together."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._is_due = False
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost"]
        for live in self._live.values():
            names = [live.pod.name]
            if live.pod.subdomain:
                full = f"{live.pod.hostname or live.pod.name}.{live.pod.subdomain}"
                names = [
                    f"{full}.{live.pod.namespace}.svc.cluster.local",
                    f"{full}.{live.pod.namespace}.svc",
                    full,
                    *names,
                ]
            lines.append(f"{live.address}\t{' '.join(names)}")
        with open(self.path, "w", encoding="ascii") as file:
            file.write("\n".join([*lines, ""]))
