"""New keys in the Secret of a pod that runs: they are prepared, and keys that can't be used are reported once."""

from __future__ import annotations

import os
from collections.abc import Callable

from agents.common import files
from sshd_bootstrap import paths
from sshd_bootstrap.exits import BootstrapError

_KEY_MAX = 1 << 20  # bytes; a Secret has no more


class KeyRotation:
    """Compares the private key of the Secret at `secret` with the file `in_use`, and prepares ssh where they differ.

    `prepare` writes the Secret's keys, and raises BootstrapError if it can't: the previous ones stay in use then, and
    it is tried again at the next look. `say` takes a line for each change.
    """

    def __init__(self, secret: str, in_use: str, prepare: Callable[[], None], say: Callable[[str], None]) -> None:
        self._private, self._public = (os.path.join(secret, name) for name in (paths.PRIVATE_KEY, paths.PUBLIC_KEY))
        self._in_use = in_use
        self._prepare, self._say = prepare, say
        self._last: bytes | None = None  # in use after the last preparation that succeeded
        self._taken: tuple[tuple[int, int], ...] | None = None  # the version of the Secret that is in use
        self._problem = ""
        self.done = self.failed = 0

    @property
    def is_due(self) -> bool:
        """Whether this version of the Secret was not seen in use by us yet."""
        return self._version() != self._taken

    def look(self) -> None:
        """Prepare the Secret's keys if they are others than those in use."""
        version, used = self._version(), self._used()
        if used is None and self._last is None:  # not prepared yet
            return
        if not self._problem and used == self._wanted() and self._taken in (None, version):
            self._taken, self._last = version, used
            return
        if self._last is None:
            self._last = used
        try:
            self._prepare()
        except BootstrapError as error:
            if error.message != self._problem:
                self._problem = error.message
                self.failed += 1
                changed = "the keys in the Secret have changed but can't be used; the previous ones stay in use"
                self._say(f"{changed}: {error.message}")
            return
        self._taken = version
        was, self._last = self._last, self._used()
        if was != self._last:
            self.done += 1
            self._say("the keys in the Secret have changed: new connections use them")
        elif self._problem:
            self._say("the keys in the Secret are the previous ones again")
        self._problem = ""

    def _used(self) -> bytes | None:
        """Return the key in use; None before the first preparation. What is no plain file will be replaced."""
        content = files.content(self._in_use, _KEY_MAX)
        return content.strip() if content is not None else b"" if os.path.lexists(self._in_use) else None

    def _version(self) -> tuple[tuple[int, int], ...]:
        """Return what differs between versions of the Secret, also if only its public key does."""
        try:
            found = os.stat(self._private), os.stat(self._public)
        except OSError:
            return ()
        return tuple((one.st_ino, one.st_mtime_ns) for one in found)

    def _wanted(self) -> bytes | None:
        """Return the Secret's key as `keys` writes it; None if it can't be read."""
        try:
            with open(self._private, "rb") as file:
                return file.read(_KEY_MAX).replace(b"\r\n", b"\n").strip()
        except OSError:
            return None
