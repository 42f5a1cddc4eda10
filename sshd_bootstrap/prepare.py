"""Writes what the user's container needs for ssh and sshd, before it starts, and again when the keys have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sshd_bootstrap.settings import Settings


def prepare(settings: Settings) -> None:
    """Check the Secret and write everything into the memory volume; what is there already stays. Raises BootstrapError.

    Each file is replaced at once, the host key last: by it sshd-start knows that the keys have changed.
    """
    raise NotImplementedError


def set_port(settings: Settings, port: int) -> None:
    """Have ssh use `port`, at which an sshd with the image's own configuration answers. Raises BootstrapError."""
    raise NotImplementedError
