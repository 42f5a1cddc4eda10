"""Launchers out of the Python package index, each in a virtual environment of its own (they exclude each other).

They are kept in ${XDG_CACHE_HOME:-~/.cache}/mpi-agents/launchers, made on first use and found again later.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import TYPE_CHECKING

from .launchers import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from .launchers import Launcher

_DONE = ".installed"


def folder(launcher: Launcher) -> str:
    """Where a launcher's virtual environment is, or will be."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(cache, "mpi-agents", "launchers", f"{launcher.name}-{launcher.version}-{python}")


def marker(launcher: Launcher) -> str:
    """The file that is there when a launcher has been installed."""
    return os.path.join(folder(launcher), _DONE)


def installed(launcher: Launcher, report: Callable[[str], None]) -> str:
    """Return the folder of a launcher's virtual environment; install it there first if need be.

    Whoever comes while another process installs it waits for that. Raises SetupError.
    """
    prefix = folder(launcher)
    if is_installed(launcher):
        return prefix
    try:
        os.makedirs(os.path.dirname(prefix), exist_ok=True)
        with open(f"{prefix}.lock", "w", encoding="ascii") as lock:
            _lock(lock, lambda: report(f"waiting for another process that installs into {prefix}"))
            if not is_installed(launcher):
                report(f"installing {launcher.title} {launcher.version} into {prefix} (once; {launcher.megabytes} MB)")
                began = time.monotonic()
                _install(launcher, prefix)
                report(f"installed in {time.monotonic() - began:.1f} s")
    except OSError as error:
        why = f"{error.filename or prefix} can't be written: {error.strerror}; XDG_CACHE_HOME says where it goes"
        raise SetupError(f"{launcher.title} {launcher.version} can't be installed: {why}") from None
    return prefix


def _lock(file: TextIO, on_wait: Callable[[], None]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(file, fcntl.LOCK_EX)


def is_installed(launcher: Launcher) -> bool:
    """Whether it was installed to its end, with the packages of today's table and a Python that is still there."""
    prefix = folder(launcher)
    try:
        with open(marker(launcher), encoding="utf-8") as file:
            return file.read() == _contents(launcher) and os.path.exists(os.path.join(prefix, "bin", "python"))
    except OSError:
        return False


def _contents(launcher: Launcher) -> str:
    return "\n".join([*launcher.packages, *launcher.source_packages, ""])


def _install(launcher: Launcher, prefix: str) -> None:
    # Not a folder that is moved at the end: a virtual environment's scripts hold its path.
    shutil.rmtree(prefix, ignore_errors=True)
    _run(launcher, [sys.executable, "-m", "venv", prefix])
    pip = [os.path.join(prefix, "bin", "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run(launcher, [*pip, "install", *launcher.packages])
    for package in launcher.source_packages:
        with tempfile.TemporaryDirectory() as download:
            fetch = ["download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", download]
            _run(launcher, [*pip, *fetch, package])
            _unpack(package, download, prefix)
    with open(os.path.join(prefix, _DONE), "w", encoding="utf-8") as file:
        file.write(_contents(launcher))


def _unpack(package: str, download: str, prefix: str) -> None:
    """Take the Python package out of its source archive, unbuilt."""
    (archive,) = glob.glob(os.path.join(download, "*.tar.gz"))
    (site_packages,) = glob.glob(os.path.join(prefix, "lib", "python3*", "site-packages"))
    name = package.partition("==")[0]
    with tarfile.open(archive) as file:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
            file.extraction_filter = staticmethod(tarfile.data_filter)
        file.extractall(download)  # noqa: S202
    (source,) = glob.glob(os.path.join(download, f"{name}-*", name))
    shutil.copytree(source, os.path.join(site_packages, name))


def _run(launcher: Launcher, command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        why = lines[-1].strip() if lines else f"exit code {done.returncode}"
        raise SetupError(f"{launcher.title} {launcher.version} can't be installed: {why}")
