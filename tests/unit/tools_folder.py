"""The folder that delivery copies from, and the one that it copies to."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from delivery import tools

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tools folder, as in the image without kubectl."""
    folder = tmp_path / "tools"
    python = folder / "python"
    (python / "bin").mkdir(parents=True)
    (python / "lib").mkdir()
    (python / "VERSION").write_text("1\n")
    (python / "lib" / "libc.so.6").write_bytes(bytes(1000))
    (python / "lib" / "libc.so").symlink_to("libc.so.6")
    (python / "lib" / "empty").touch()
    for program in (folder / "rshagent", folder / "rshagent-direct", python / "bin" / "python3"):
        program.write_bytes(b"\x7fELF" + bytes(300_000))
        program.chmod(0o711)
    return folder


@pytest.fixture
def kube(tmp_path: Path) -> Path:
    return tmp_path / "opt" / "kube"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def copy(argument: str, folder: Path, kube: Path) -> list[str]:
    return [tools.copy(tool, str(folder), str(kube)) for tool in tools.parse(argument)]
