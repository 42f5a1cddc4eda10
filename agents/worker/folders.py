"""Tells the loop when a mounted ConfigMap, Secret or downward API folder has changed.

The kubelet swaps such a folder's `..data` link. watchfiles sees it in a thread of its own: it waits for the kernel, and
looks four times a second whether it is to stop, which costs some 0.05 ms of CPU a second.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import watchfiles

from rshagent.loop import READ

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rshagent.loop import Loop

_STEP_MS = 250
_ANYWAY_MS = 10_000  # what came before the watch, or could not be carried out when it came, is seen by then
_POLL_S = 5.0


class Folders:
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
        """Watch no more. Takes at most a step of the thread's."""
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
                self._log(f"changes are looked for every {_POLL_S:g} s: the kernel tells none ({self._last_error})")
            elif word == "e":
                self._log(f"changed keys and orders can't be seen: {self._last_error}")
        self._changed()
