"""Who a process of ours is and what it may do, where a test depends on it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""What a command begins with that root runs as in a container without capabilities: files' modes bind it."""


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Have files made with this mask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
