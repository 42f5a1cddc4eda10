"""Keys that were rotated in the Secret are prepared anew, for an sshd that runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sshd_bootstrap import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KEY_MAX = 1 << 20  # bytes; a Secret has no more


class Rotation:
    """Compares the Secret with what is in force, and has sshd_bootstrap write what differs."""

    def __init__(self, keys: str, volume: str, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._private = os.path.join(keys, paths.PRIVATE_KEY)
        # What is written last: a preparation that was broken off, as of a full volume, is taken up again.
        self._in_force = os.path.join(volume, paths.RUN_FOLDER, paths.HOST_KEY)
        self._environ, self._say = environ, say
        self._told = ""
        self.done = self.failed = 0

    def look(self) -> None:
        """Prepare, if a key was prepared and the Secret's is another."""
        in_force = _content(self._in_force)
        if in_force is None:
            return
        if in_force == _content(self._private):
            if self._told:
                self._told = ""
                self._say("the keys in the Secret are the former ones again")
            return
        from sshd_bootstrap.exits import BootstrapError  # noqa: PLC0415 (of no use in a pod whose keys stay)
        from sshd_bootstrap.prepare import prepare  # noqa: PLC0415
        from sshd_bootstrap.settings import Settings  # noqa: PLC0415

        try:
            prepare(Settings.load(self._environ))
        except BootstrapError as error:
            if error.message != self._told:
                self._told = error.message
                self.failed += 1
                self._say(
                    f"the keys in the Secret have changed and can't be taken, the former ones stay: {error.message}"
                )
            return
        self._told = ""
        self.done += 1
        self._say("the keys in the Secret have changed: new connections are made by the new ones")


def _content(path: str) -> bytes | None:
    """Return a key in the form in which sshd_bootstrap.keys writes it; None if there is none.

    Reads without waiting: in the user's container, which has the folder too, somebody may have put a pipe there.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(_KEY_MAX).replace(b"\r\n", b"\n").strip()
    except OSError:
        return None
