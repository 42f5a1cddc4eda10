"""The launcher's ssh files, and the start gate by which delivery lets the launcher's command begin.

The files of the gate are read by sshd_bootstrap/start_waiting.c.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from delivery.exits import SSH_FILES, USAGE, DeliveryError
from sshd_bootstrap import exits, layout, paths, prepare
from sshd_bootstrap.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    _Version = tuple[tuple[int, int], ...]

_KEY_MAX = 1 << 20  # bytes; a Secret has no more
_KEYS = (paths.PRIVATE_KEY, paths.PUBLIC_KEY)


class Files:
    """The ssh files of a launcher, as the environment describes them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Raises DeliveryError."""
        try:
            self._settings = Settings.load(environ)
        except exits.BootstrapError as error:
            raise _failed(error) from None
        self._taken: _Version = ()
        self._key = b""  # of that version

    @property
    def ports(self) -> tuple[int, ...]:
        """Where an sshd may be, ours first."""
        return self._settings.ports

    @property
    def run_folder(self) -> str:
        """The folder that is also mounted in the launcher's container."""
        return os.path.join(self._settings.volume, paths.RUN_FOLDER)

    def prepare(self) -> bool:
        """Write what is not there yet or has changed; return whether the key is another than the last time's.

        Raises DeliveryError.
        """
        version = self._version()
        try:
            prepare.prepare(self._settings)
        except exits.BootstrapError as error:
            raise _failed(error) from None
        self._taken = version
        before, self._key = self._key, _content(os.path.join(self.run_folder, paths.IDENTITY))
        return before not in (b"", self._key)

    @property
    def are_missing(self) -> bool:
        """Whether the preparation is incomplete: the Secret could not be used."""
        last = layout.ssh_configs(self._settings, {})[-1]
        return not os.path.exists(os.path.join(self._settings.volume, last.path))

    @property
    def have_new_keys(self) -> bool:
        """Whether the Secret has changed since it was prepared, and the workers take new keys as well."""
        return self._settings.follows and self._version() != self._taken

    def _version(self) -> _Version:
        """Return what tells versions of the Secret apart: the kubelet makes new files for each."""
        try:
            found = [os.stat(os.path.join(self._settings.keys, name)) for name in _KEYS]
        except OSError:
            return ()
        return tuple((one.st_ino, one.st_mtime_ns) for one in found)

    def tell_ports(self, found: Mapping[str, int]) -> None:
        """Have ssh use the ports where the hosts' sshds are. Raises DeliveryError."""
        if not self._settings.has_own_config and set(found.values()) <= {self._settings.port}:
            return
        try:
            prepare.set_ports(self._settings, found)
        except exits.BootstrapError as error:
            raise _failed(error) from None


def _content(path: str) -> bytes:
    """Return what was written a moment ago. The launcher's container may write here: don't block on a pipe of its."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(_KEY_MAX)
    except OSError:
        return b""


def _failed(error: exits.BootstrapError) -> DeliveryError:
    return DeliveryError(USAGE if error.exit_code == exits.USAGE else SSH_FILES, str(error))


TOLD_AFTER_S = 2.0  # a longer wait for the hook is logged
_PREPARING_S = 0.02
_LOOK_S = 1.0


class KeyUpdates:
    """Takes new keys from the Secret; keys that can't be used are logged once, and the previous ones stay in use."""

    def __init__(self, files: Files, say: Callable[[str], None]) -> None:
        self._files, self._say, self._told = files, say, ""

    def look(self) -> None:
        """Check once."""
        if not self._files.have_new_keys:
            return
        try:
            are_others = self._files.prepare()
        except DeliveryError as error:
            if str(error) != self._told:
                self._told = str(error)
                self._say(
                    f"the keys in the Secret have changed but can't be used; the previous ones stay in use: {error}"
                )
            return
        if are_others:
            self._say("the keys in the Secret have changed: new connections use them")
        elif self._told:
            self._say("the keys in the Secret are the previous ones again")
        self._told = ""

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Check again and again while the launcher runs."""
        while not is_over():
            time.sleep(_LOOK_S)
            self.look()


class StartGate:
    """The files that let the launcher's command start, or fail it. `folder`: the run folder of ssh's volume."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def until_prepared(self, say: Callable[[str], None]) -> None:
        """Wait until this container's postStart hook has prepared ssh: if the hook fails, the kubelet ends us."""
        told_at = time.monotonic() + TOLD_AFTER_S
        while not os.path.exists(self._path(paths.HELPER)):
            if time.monotonic() >= told_at:
                told_at = float("inf")
                say("waiting for this container's postStart hook (sshd-bootstrap), which prepares ssh")
            time.sleep(_PREPARING_S)

    def ready(self) -> None:
        """Let the launcher's command start. Raises DeliveryError."""
        self._give(paths.READY, "go", instead_of=paths.FAILED)

    @property
    def is_taken(self) -> bool:
        """Whether the launcher's command has started, let by an earlier delivery."""
        return self._read(paths.READY) == "taken"

    def is_asked_for(self) -> bool:
        """Whether the launcher's container was restarted and waits at the gate again."""
        return self._read(paths.READY) == "again"

    def failed(self, exit_code: int, line: str) -> None:
        """Have the launcher's container exit with this code. Raises DeliveryError."""
        self._give(paths.FAILED, f"{exit_code}\n{line}", instead_of=paths.READY)

    def until_taken(self) -> None:
        """Wait until the failure was read: the container has ended, and may be restarted."""
        with suppress(FileNotFoundError):
            while os.stat(self._path(paths.FAILED)).st_size:
                time.sleep(_LOOK_S)

    def _read(self, name: str) -> str:
        try:
            with open(self._path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def _give(self, name: str, text: str, *, instead_of: str) -> None:
        part = self._path(f".{name}.part")
        if self.is_taken:  # meanwhile, by an earlier delivery's word: the next start is to ask for one of its own
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._path(instead_of))
            with open(part, "w", encoding="utf-8", errors="replace") as file:
                os.fchmod(file.fileno(), 0o666)  # whoever runs there has to take it
                file.write(text)
            os.rename(part, self._path(name))
        except OSError as error:
            raise DeliveryError(SSH_FILES, f"{self._path(name)} can't be written: {error.strerror}") from None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
