"""Pairs of ssh keys, as the operator puts them into a job's Secret."""

from __future__ import annotations

import base64
from pathlib import Path

from agents.job.model import KeyType
from agents.operator.executor import new_key_pair


def key_pair(key_type: KeyType = KeyType.ED25519) -> dict[str, bytes]:
    """A new pair, by the names of its files."""
    return {name: base64.b64decode(content) for name, content in new_key_pair(key_type).items()}


def write_keys(folder: Path | str, key_type: KeyType = KeyType.ED25519) -> dict[str, bytes]:
    """Put a new pair into the Secret's folder, and return it."""
    pair = key_pair(key_type)
    for name, content in pair.items():
        (Path(folder) / name).write_bytes(content)
    return pair
