"""The files of ssh and sshd: prepared before the wait, and told the ports where sshds were found."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from delivery.exits import SSH_FILES, USAGE, DeliveryError
from sshd_bootstrap import exits, layout, paths, prepare
from sshd_bootstrap.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    _Version = tuple[tuple[int, int], ...]

_KEY_MAX = 1 << 20  # bytes; a Secret has no more
_KEYS = (paths.PRIVATE_KEY, paths.PUBLIC_KEY)


class Files:
    """One job's files, as the environment describes them."""

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
        """The folder that the launcher's container has, too."""
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
        """Whether they have not been prepared to the end: the Secret was of no use."""
        last = layout.ssh_configs(self._settings, {})[-1]
        return not os.path.exists(os.path.join(self._settings.volume, last.path))

    @property
    def have_new_keys(self) -> bool:
        """Whether the Secret is another than the one that was prepared, and the workers take new keys as well."""
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
    """Return what was written a moment ago. The launcher's container may write here: nobody waits for its pipe."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(_KEY_MAX)
    except OSError:
        return b""


def _failed(error: exits.BootstrapError) -> DeliveryError:
    return DeliveryError(USAGE if error.exit_code == exits.USAGE else SSH_FILES, str(error))
