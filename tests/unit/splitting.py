"""Byte streams in pieces: hypothesis chooses where they are cut."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACES = st.lists(st.integers(min_value=0, max_value=1 << 20), max_size=12)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Return `data` in pieces, empty ones among them; `places` are taken modulo its length."""
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(marks)]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]
