"""The launcher's ssh files, and the start gate by which delivery lets the launcher's command begin.

The files of the gate are read by sshd_bootstrap/start_waiting.c.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from agents.common import files
from delivery.exits import SSH_FILES, USAGE, DeliveryError
from delivery.sshd.key_use import KeyUse
from sshd_bootstrap import exits, layout, paths, prepare
from sshd_bootstrap.rotation import KeyRotation
from sshd_bootstrap.settings import Settings


class Files:
    """The ssh files of a launcher, as the environment describes them."""

    def __init__(self, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Take a `say` for lines about new keys. Raises DeliveryError."""
        with _failures():
            self._settings = Settings.load(environ)
        in_use = os.path.join(self.run_folder, paths.IDENTITY)
        self._rotation = KeyRotation(self._settings.keys, in_use, lambda: prepare.prepare(self._settings), say)
        self._use: KeyUse | None = None

    @property
    def ports(self) -> tuple[int, ...]:
        """Where an sshd may be, ours first."""
        return self._settings.ports

    @property
    def run_folder(self) -> str:
        """The folder that is also mounted in the launcher's container."""
        return os.path.join(self._settings.volume, paths.RUN_FOLDER)

    def prepare(self) -> None:
        """Write what is not there yet or has changed. Raises DeliveryError."""
        with _failures():
            prepare.prepare(self._settings)

    def take_new_keys(self) -> None:
        """Prepare the Secret's keys if they have changed, and the workers take new keys as well."""
        if self.have_new_keys:  # else those in use are not opened, which would count as their use
            self._rotation.look()

    @property
    def are_missing(self) -> bool:
        """Whether the preparation is incomplete: the Secret could not be used."""
        last = layout.ssh_configs(self._settings, {})[-1]
        return not os.path.exists(os.path.join(self._settings.volume, last.path))

    @property
    def have_new_keys(self) -> bool:
        """Whether the Secret has changed since it was prepared, and the workers take new keys as well."""
        return self._settings.follows and self._rotation.is_due

    def follow_use(self) -> None:
        """Follow from now on whether the keys are used."""
        self.forget_use()
        names = f"{paths.AUTH_FOLDER}/id_rsa", f"{paths.RUN_FOLDER}/{paths.IDENTITY}"
        self._use = KeyUse([os.path.join(self._settings.volume, name) for name in names])

    def forget_use(self) -> None:
        """Follow it no longer: they may have been used before."""
        if self._use is not None:
            self._use.close()
        self._use = None

    @property
    def are_unused(self) -> bool:
        """Whether it is certain that nobody has used the keys since `follow_use`."""
        return self._use is not None and self._use.is_unused

    def use_ports(self, found: Mapping[str, int]) -> None:
        """Have ssh use the ports where the hosts' sshds are. Raises DeliveryError."""
        if not self._settings.has_own_config and set(found.values()) <= {self._settings.port}:
            return
        with _failures():
            prepare.set_ports(self._settings, found)


@contextmanager
def _failures() -> Iterator[None]:
    """Have what the preparation can't do end delivery."""
    try:
        yield
    except exits.BootstrapError as error:
        raise DeliveryError(USAGE if error.exit_code == exits.USAGE else SSH_FILES, str(error)) from None


LOGGED_AFTER_S = 2.0  # a longer wait for the hook is logged
_PREPARING_S = 0.02
LOOK_S = 1.0
_WORD_MAX = 64  # bytes that are read of a file of the gate


class StartGate:
    """The files that let the launcher's command start, or fail it. `folder`: the run folder of ssh's volume."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def until_prepared(self, say: Callable[[str], None]) -> None:
        """Wait until this container's postStart hook has prepared ssh: if the hook fails, the kubelet ends us."""
        log_at = time.monotonic() + LOGGED_AFTER_S
        while not os.path.exists(self._path(paths.HELPER)):
            if time.monotonic() >= log_at:
                log_at = float("inf")
                say("waiting for this container's postStart hook (sshd-bootstrap), which prepares ssh")
            time.sleep(_PREPARING_S)

    def ready(self) -> bool:
        """Let the launcher's command start; return whether it has not yet. Raises DeliveryError."""
        return self._write(paths.READY, "go", instead_of=paths.FAILED)

    @property
    def is_taken(self) -> bool:
        """Whether the launcher's command has started: an earlier delivery opened the gate."""
        return self._read(paths.READY) == "taken"

    def until_asked_again(self, meanwhile: Callable[[], None]) -> None:
        """Call `meanwhile` once a second until the launcher's container was restarted and waits at the gate again."""
        while self._read(paths.READY) != "again":
            time.sleep(LOOK_S)
            meanwhile()

    def failed(self, exit_code: int, line: str) -> None:
        """Have the launcher's container exit with this code. Raises DeliveryError."""
        self._write(paths.FAILED, f"{exit_code}\n{line}", instead_of=paths.READY)

    def until_taken(self) -> None:
        """Wait until the failure was read: the container has ended, and may be restarted."""
        with suppress(FileNotFoundError):
            while os.stat(self._path(paths.FAILED)).st_size:
                time.sleep(LOOK_S)

    def _read(self, name: str) -> str:
        return (files.content(self._path(name), _WORD_MAX) or b"").decode(errors="replace")

    def _write(self, name: str, text: str, *, instead_of: str) -> bool:
        if self.is_taken:  # meanwhile, because an earlier delivery opened the gate: the next start asks again
            return False
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._path(instead_of))
            # The launcher's container writes to it as well, whoever runs there.
            files.replace(self._path(name), 0o666, lambda fd: files.write_all(fd, text.encode(errors="replace")))
        except OSError as error:
            raise DeliveryError(SSH_FILES, f"{self._path(name)} can't be written: {error.strerror}") from None
        return True

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)
