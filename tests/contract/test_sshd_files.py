"""What sshd-start reads may be any bytes: cut, without an end, no file at all. It takes what it can, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from ssh_pods import PATH, PATIENCE_S

from rshagent.native import client_build
from sshd_bootstrap import start_build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SESSION = {"PATH": PATH, "SHELL": "/bin/sh", "USER": "me"}  # all of it a session's: no room is left over


@pytest.fixture(scope="module", params=["shipped", "sanitized"])
def built(request: pytest.FixtureRequest) -> str:
    return client_build.kept("sshd-start", start_build.SOURCES, sanitize=request.param == "sanitized")


@pytest.fixture
def program(built: str, tmp_path: Path) -> Path:
    return tmp_path / shutil.copy(built, tmp_path)


def session(program: Path) -> dict[str, str]:
    """Return the environment of a session's command."""
    environ = {**SESSION, "SSH_ORIGINAL_COMMAND": "env -0"}
    done = subprocess.run(
        [program, "--session"], env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(variable.split("=", 1) for variable in done.stdout.split("\0") if variable)


KEPT: dict[str, tuple[bytes, dict[str, str]]] = {
    "as we write it": (b"A=1\0B=2\0", {"A": "1", "B": "2"}),
    "without the last end": (b"A=1\0B=2", {"A": "1", "B": "2"}),
    "one, without its end": (b"A=1", {"A": "1"}),
    "exactly as long as a page, without an end": (b"A=" + b"x" * 4094, {"A": "x" * 4094}),
    "many, without the last end": (b"\0".join(b"V%d=%d" % (n, n) for n in range(500)), {"V0": "0", "V499": "499"}),
    "empty": (b"", {}),
    "ends alone": (b"\0" * 100, {}),
    "ends between": (b"\0\0A=1\0\0\0B=2\0\0", {"A": "1", "B": "2"}),
    "no variables": (b"nonsense\0more of it", {}),
    "what is the session's own": (b"USER=other\0SHELL=/bin/false\0A=1", {"USER": "me", "SHELL": "/bin/sh", "A": "1"}),
}


@pytest.mark.parametrize(("content", "expected"), KEPT.values(), ids=KEPT)
def test_a_kept_environment_of_any_form(program: Path, content: bytes, expected: dict[str, str]) -> None:
    (program.parent / "environment").write_bytes(content)
    assert expected.items() <= session(program).items()


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "a folder": lambda path: path.mkdir(),
    "a FIFO": os.mkfifo,
    "a link": lambda path: path.symlink_to("/proc/self/environ"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "far too large": sparse,
}


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_kept_environment_is_left_alone(program: Path, make: Callable[[Path], object]) -> None:
    make(program.parent / "environment")
    found = session(program)
    assert found["USER"] == "me"


@pytest.mark.parametrize("text", ["0\nall is well", "256\nx", "-1\nx", "no number", "\nx", "99999999999999999999\nx"])
def test_a_failure_that_delivery_tells_of_is_never_a_success(program: Path, text: str) -> None:
    (program.parent / "failed").write_text(text)
    done = subprocess.run(
        [program, "--when-ready", "true"], env=SESSION, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 45


@pytest.mark.parametrize(
    ("name", "make"),
    [("ready", os.mkfifo), ("ready", os.mkdir), ("failed", os.mkfifo), ("failed", os.mkdir)],
    ids=["ready: FIFO", "ready: folder", "failed: FIFO", "failed: folder"],
)
def test_what_is_no_file_is_no_word(program: Path, name: str, make: Callable[[str], None]) -> None:
    make(str(program.parent / name))
    other = program.parent / ("failed" if name == "ready" else "ready")
    other.write_text("7\nas told" if name == "ready" else "go")
    done = subprocess.run(
        [program, "--when-ready", "sh", "-c", "exit 3"],
        env=SESSION, capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == (7 if name == "ready" else 3)
