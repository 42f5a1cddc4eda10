"""Mounted folders that change: a watch for all of them, and the command in the annotation mpi-agents/order.

The kubelet swaps the `..data` link of a mounted ConfigMap, Secret or downward API folder. watchfiles sees that in a
thread of its own: it waits for the kernel, and looks four times a second whether it is to stop, which costs some
0.05 ms of CPU a second.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import watchfiles

from agents.common.loop import READ, Loop

_STEP_MS = 250
ANYWAY_MS = 10_000  # for changes before the watch started, and those that could not be applied immediately
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
                    rust_timeout=ANYWAY_MS,
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
        """Whether the command is debug: orphans are not terminated."""
        return self.order == DEBUG

    def read(self) -> str:
        """Read the file again; return the line to log, empty if nothing has changed."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                text = file.read(_LENGTH_MAX + 1)
        except OSError:
            text = ""  # no such volume: there is no command
        return self.take(text)

    def take(self, text: str) -> str:
        """Take the file's content; an annotation that isn't there makes an empty one."""
        command = text.strip() or RUN
        if command in (RUN, DEBUG):
            self._last = ""
            if command == self.order:
                return ""
            self.order = command
            return f"order: {command}"
        if command == self._last:
            return ""
        self._last = command
        return f"order {command[:_LENGTH_MAX]!a} is unknown: use {RUN} or {DEBUG}; it stays {self.order}"
