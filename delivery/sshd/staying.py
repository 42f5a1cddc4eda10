"""Delivery beside the launcher's own container, which waits for its word: the files by which it is given.

sshd_bootstrap/start_waiting.c reads them.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from delivery.exits import SSH_FILES, DeliveryError
from sshd_bootstrap import paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from delivery.sshd.files import Files

TOLD_AFTER_S = 2.0  # who waits for the container's start for longer is told so
_PREPARING_S = 0.02
_LOOK_S = 1.0


class Keys:
    """Takes what the Secret has, where that has changed; what can't be taken is told once, and the former keys stay."""

    def __init__(self, files: Files, say: Callable[[str], None]) -> None:
        self._files, self._say, self._told = files, say, ""

    def look(self) -> None:
        """Look once."""
        if not self._files.have_new_keys:
            return
        try:
            are_others = self._files.prepare()
        except DeliveryError as error:
            if str(error) != self._told:
                self._told = str(error)
                self._say(f"the keys in the Secret have changed and can't be taken, the former ones stay: {error}")
            return
        if are_others:
            self._say("the keys in the Secret have changed: new connections are made by the new ones")
        elif self._told:
            self._say("the keys in the Secret are the former ones again")
        self._told = ""

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Look again and again, for the ssh of a launcher that runs."""
        while not is_over():
            time.sleep(_LOOK_S)
            self.look()


class Word:
    """What the launcher's container is told. `folder`: the run folder of ssh's volume."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def until_prepared(self, say: Callable[[str], None]) -> None:
        """Wait until the container's start, which prepares ssh meanwhile, has done so: if it fails, it ends us."""
        told_at = time.monotonic() + TOLD_AFTER_S
        while not os.path.exists(self._path(paths.HELPER)):
            if time.monotonic() >= told_at:
                told_at = float("inf")
                say("waiting for this container's start (postStart: sshd-bootstrap), which prepares ssh")
            time.sleep(_PREPARING_S)

    def ready(self) -> None:
        """Let the launcher's command begin. Raises DeliveryError."""
        self._give(paths.READY, "go", instead_of=paths.FAILED)

    @property
    def is_taken(self) -> bool:
        """Whether the launcher's command has begun by an earlier delivery's word."""
        return self._read(paths.READY) == "taken"

    def is_asked_for(self) -> bool:
        """Whether the container was started again, and waits for a word of its own."""
        return self._read(paths.READY) == "again"

    def failed(self, exit_code: int, line: str) -> None:
        """Have the launcher's container end so. Raises DeliveryError."""
        self._give(paths.FAILED, f"{exit_code}\n{line}", instead_of=paths.READY)

    def until_taken(self) -> None:
        """Wait until a failure has been taken: the container has ended, and may be started again."""
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
