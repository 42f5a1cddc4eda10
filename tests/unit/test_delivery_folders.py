"""Folders that delivery copies as a whole, as the Python of the hub that the client starts where there is none."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from tools_folder import copy, folder, kube

from delivery import target
from delivery.exits import TARGET, TOOL_MISSING, DeliveryError
from tests.privileges import umask

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["folder", "kube"]


def listing(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """All that is in a folder: modes and contents."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        name, mode = str(path.relative_to(folder)), stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = 0, str(path.readlink())
        else:
            found[name] = mode, b"" if path.is_dir() else path.read_bytes()
    return found


def test_the_hub_comes_with_its_python_whatever_the_umask(folder: Path, kube: Path) -> None:
    with umask(0o077):
        lines = copy("direct", folder, kube)
    assert lines == [f"copied {folder}/{name} to {kube}/{name}" for name in ("python", "rshagent-direct")]
    assert listing(kube) == {
        "python": (0o755, b""),
        "python/VERSION": (0o644, b"1\n"),
        "python/bin": (0o755, b""),
        "python/bin/python3": (0o755, (folder / "python/bin/python3").read_bytes()),
        "python/lib": (0o755, b""),
        "python/lib/empty": (0o644, b""),
        "python/lib/libc.so": (0, "libc.so.6"),
        "python/lib/libc.so.6": (0o644, bytes(1000)),
        "rshagent-direct": (0o755, (folder / "rshagent-direct").read_bytes()),
    }


def test_the_same_version_is_left_alone(folder: Path, kube: Path) -> None:
    copy("direct", folder, kube)
    before = (kube / "python").stat().st_ino
    assert copy("direct", folder, kube) == [f"{kube}/{name} is there already" for name in ("python", "rshagent-direct")]
    assert (kube / "python").stat().st_ino == before


@pytest.mark.parametrize("stamps", [("1", "2"), ("1", None), (None, "1"), (None, None)])
def test_another_version_or_none_is_replaced_as_a_whole(
    folder: Path, kube: Path, stamps: tuple[str | None, str | None]
) -> None:
    copy("direct", folder, kube)
    (kube / "python" / "lib" / "of-the-old-one").touch()
    for there, stamp in zip((kube, folder), stamps, strict=True):
        (there / "python" / "VERSION").unlink()
        if stamp is not None:
            (there / "python" / "VERSION").write_text(stamp)
    with open(kube / "python" / "bin" / "python3", "rb") as running:
        copy("direct", folder, kube)
        assert len(running.read()) == 300_004
    assert not (kube / "python" / "lib" / "of-the-old-one").exists()
    assert sorted(os.listdir(kube)) == ["python", "rshagent-direct"]


def test_leftovers_of_a_killed_delivery_are_taken_away(folder: Path, kube: Path) -> None:
    (kube / ".python.part" / "lib").mkdir(parents=True)
    (kube / ".python.old").write_text("a file in the way")
    copy("direct", folder, kube)
    assert sorted(os.listdir(kube)) == ["python", "rshagent-direct"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_has_the_folders_name_is_replaced_not_followed(
    folder: Path, kube: Path, tmp_path: Path, kind: str
) -> None:
    kube.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "link":
        (kube / "python").symlink_to(elsewhere)
    else:
        (kube / "python").write_text("no folder")
    copy("direct", folder, kube)
    assert (kube / "python" / "VERSION").exists()
    assert not (kube / "python").is_symlink()
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize("to", ["/etc/passwd", "../../outside", "../../../outside"])
def test_links_are_not_followed_out_of_the_folder(folder: Path, kube: Path, to: str) -> None:
    (folder / "outside").touch()
    (folder / "python" / "lib" / "link").symlink_to(to)
    with pytest.raises(DeliveryError, match=r"lib/link is a link that leads out of .*/python, and is not") as error:
        copy("direct", folder, kube)
    assert error.value.exit_code == TOOL_MISSING
    assert os.listdir(kube) == []


def test_what_is_neither_file_nor_folder_is_not_opened(folder: Path, kube: Path) -> None:
    os.mkfifo(folder / "python" / "lib" / "pipe")
    with pytest.raises(DeliveryError, match="lib/pipe is neither a file nor a folder") as error:
        copy("direct", folder, kube)
    assert error.value.exit_code == TOOL_MISSING


def test_a_missing_python_says_what_there_is(folder: Path, kube: Path) -> None:
    (folder / "python").rename(folder / "snake")
    with pytest.raises(DeliveryError, match=r"/python is not a folder; .*/tools has rshagent, .*snake") as error:
        copy("direct", folder, kube)
    assert error.value.exit_code == TOOL_MISSING


def test_a_target_that_takes_no_folder_is_one_line(folder: Path, kube: Path) -> None:
    kube.parent.mkdir(parents=True)
    kube.write_text("a file")
    with pytest.raises(DeliveryError) as error:
        copy("direct", folder, kube)
    assert error.value.exit_code == TARGET
    assert str(error.value) == f"{kube}/python can't be written: part of the path is not a folder"


def test_a_full_target_leaves_nothing(folder: Path, kube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_source: int, _fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(target, "transfer", full)
    with pytest.raises(DeliveryError, match="/python can't be written: its file system is full"):
        copy("direct", folder, kube)
    assert os.listdir(kube) == []


def test_where_the_kernel_cannot_copy_we_do(folder: Path, kube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", refused)
    copy("direct", folder, kube)
    assert (kube / "python/bin/python3").read_bytes() == (folder / "python/bin/python3").read_bytes()
