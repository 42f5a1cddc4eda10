"""A file whose content others change while we run: a ConfigMap's volume swaps a symbolic link."""

from __future__ import annotations

import os


class WatchedFile:
    """A file that is read again when it was replaced or written; `data` is None while there is none."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.data: bytes | None = None
        self._seen: tuple[int, int, int, int] | None = None

    def refresh(self) -> bool:
        """Read the file if it changed; say whether it did."""
        try:
            found = os.stat(self.path)
            seen = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return False
            with open(self.path, "rb") as file:
                data: bytes | None = file.read()
        except OSError:
            seen, data = None, None
        changed = data != self.data
        self._seen, self.data = seen, data
        return changed
