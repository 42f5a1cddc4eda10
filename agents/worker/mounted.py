"""What changes in mounted folders: new keys in the Secret, and the command in the annotation mpi-agents/order.

The kubelet swaps the `..data` link of a mounted ConfigMap, Secret or downward API folder. watchfiles sees that in a
thread of its own: it waits for the kernel, and looks four times a second whether it is to stop, which costs some
0.05 ms of CPU a second.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import watchfiles

from agents.common.loop import READ
from sshd_bootstrap import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agents.common.loop import Loop

_STEP_MS = 250
_ANYWAY_MS = 10_000  # what came before the watch, or could not be carried out when it came, is seen by then
_POLL_S = 5.0


class FolderWatch:
    """Calls `changed()` from the loop after something in one of the folders has changed, and every 10 s."""

    def __init__(
        self, loop: Loop, paths: Sequence[str], changed: Callable[[], None], log: Callable[[str], None]
    ) -> None:
        self._loop, self._changed, self._log = loop, changed, log
        self._paths = tuple(path for path in paths if os.path.isdir(path))
        self._wake, self._woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="folders", daemon=True)
        loop.add(self._wake, READ, self._tell)
        if self._paths:
            self._thread.start()

    def close(self) -> None:
        """Stop watching. Takes at most one step of the thread."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._loop.remove(self._wake)
        os.close(self._wake)
        os.close(self._woken)

    def _watch(self) -> None:
        for polling in (False, True):
            try:
                for _changes in watchfiles.watch(
                    *self._paths,
                    watch_filter=None,
                    step=_STEP_MS,
                    rust_timeout=_ANYWAY_MS,
                    yield_on_timeout=True,
                    stop_event=self._stop,
                    recursive=False,
                    force_polling=polling,
                    poll_delay_ms=int(_POLL_S * 1000),
                ):
                    os.write(self._woken, b"c")
            except (OSError, RuntimeError) as error:  # WatchfilesRustInternalError, as of a kernel without inotify left
                self._last_error = str(error)
                os.write(self._woken, b"p" if not polling else b"e")
            else:
                return

    def _tell(self, _events: int) -> None:
        for word in os.read(self._wake, 4096).decode():
            if word == "p":
                self._log(
                    f"polling for changes every {_POLL_S:g} s: the kernel does not report them ({self._last_error})"
                )
            elif word == "e":
                self._log(f"changes of keys and orders can't be watched: {self._last_error}")
        self._changed()


_KEY_MAX = 1 << 20  # bytes; a Secret has no more


class KeyRotation:
    """Compares the Secret with the keys in use, and has sshd_bootstrap write those that differ."""

    def __init__(self, keys: str, volume: str, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._private = os.path.join(keys, paths.PRIVATE_KEY)
        # What is written last: a preparation that was broken off, as of a full volume, is taken up again.
        self._in_force = os.path.join(volume, paths.RUN_FOLDER, paths.HOST_KEY)
        self._environ, self._say = environ, say
        self._told = ""
        self.done = self.failed = 0

    def look(self) -> None:
        """Prepare the Secret's keys, if others were prepared before."""
        in_force = _content(self._in_force)
        if in_force is None:
            return
        if in_force == _content(self._private):
            if self._told:
                self._told = ""
                self._say("the keys in the Secret are the previous ones again")
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
                changed = "the keys in the Secret have changed but can't be used; the previous ones stay in use"
                self._say(f"{changed}: {error.message}")
            return
        self._told = ""
        self.done += 1
        self._say("the keys in the Secret have changed: new connections use them")


def _content(path: str) -> bytes | None:
    """Return a key in the form in which sshd_bootstrap.keys writes it; None if there is none.

    Reads without waiting: in the user's container, which has the folder too, somebody may have put a pipe there.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(_KEY_MAX).replace(b"\r\n", b"\n").strip()
    except OSError:
        return None


RUN, DEBUG = "run", "debug"
_LENGTH_MAX = 64


class Commands:
    """Follows the command in the annotation; an unknown one is logged once and changes nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last = ""
        self.order = RUN

    @property
    def is_debug(self) -> bool:
        """Whether somebody debugs this pod."""
        return self.order == DEBUG

    def read(self) -> str:
        """Read the file again; return the line to log, empty if nothing has changed."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                text = file.read(_LENGTH_MAX + 1)
        except OSError:
            text = ""  # no such volume: nobody has asked for anything
        return self.take(text)

    def take(self, text: str) -> str:
        """Take the file's content; an annotation that isn't there makes an empty one."""
        word = text.strip() or RUN
        if word in (RUN, DEBUG):
            self._last = ""
            if word == self.order:
                return ""
            self.order = word
            return f"order: {word}"
        if word == self._last:
            return ""
        self._last = word
        return f"order {word[:_LENGTH_MAX]!a} is unknown: use {RUN} or {DEBUG}; it stays {self.order}"
