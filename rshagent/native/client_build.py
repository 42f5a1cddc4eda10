"""Compile a static program, by default the client: `python -m rshagent.native.client_build OUT [--sanitize] [--OTHER]`.

The ordinary build is static, for the client runs in images of any C library, or none. Where CC does not say otherwise
it is linked with musl if that is there: such a program starts in a third of the time and takes a tenth of the disk.
`--sanitize` is for tests: it is dynamic, and ends with a report at the first thing that the address or undefined
behaviour sanitizer finds. The other options compile the program of their name instead, in the same way.
"""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import MappingProxyType

_HERE = os.path.dirname(os.path.abspath(__file__))


def _files(*names: str) -> list[str]:
    return [os.path.join(_HERE, f"{name}.c") for name in names]


_SIGNALS = _files("client_signals")
_PEER = [*_files("client_launcher", "messages"), *_SIGNALS]
CLIENT = [*_files("client", "client_hub"), *_PEER]
WRAP = [*_files("wrap", "wrap_container", "wrap_podman"), *_PEER]
RUNNER = _files("runner", "runner_program", "runner_processes", "messages")
DIRECT_START = _files("direct_start")
PAUSE = _files("pause")
K8S_LAUNCH = [*_files("k8s_launch"), *_SIGNALS]
_OTHERS = {
    "--direct-start": DIRECT_START,
    "--k8s-launch": K8S_LAUNCH,
    "--pause": PAUSE,
    "--runner": RUNNER,
    "--wrap": WRAP,
}

_WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
# _FORTIFY_SOURCE is undefined first, as some distributions' compilers define it.
_HARDENING = ["-O2", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro,-z,now"]
_STATIC = ["-static", "-no-pie", "-s"]
# Signals are blocked before the C library begins (client_signals.c), on the machines that this is written for.
_ENTRY = ["-DBLOCKED_ENTRY", "-Wl,-e,blocked_start"] if os.uname().machine in ("x86_64", "aarch64") else []
_SANITIZE = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_NONE: Mapping[str, int] = MappingProxyType({})


class BuildError(Exception):
    """The client can't be compiled here; the text is one line that says what is missing."""


def build(
    out: str, *, sanitize: bool = False, sources: list[str] = CLIENT, constants: Mapping[str, int] = _NONE
) -> None:
    """Compile the client, or another program, to the file `out` (mode 0755, replaced atomically). Raises BuildError.

    `constants`: those that a test shortens, as PATIENCE_S (messages.h) and TERM_S (runner_processes.c).
    """
    folder = os.path.dirname(os.path.abspath(out))
    try:
        with tempfile.TemporaryDirectory(prefix=".client-", dir=folder) as scratch:
            made = os.path.join(scratch, "rshagent")
            flags = _SANITIZE if sanitize else [*_HARDENING, *_STATIC, *(_ENTRY if _SIGNALS[0] in sources else [])]
            _compile(sources, made, [*_WARNINGS, *flags, *(f"-D{name}={value}" for name, value in constants.items())])
            os.chmod(made, 0o755)  # noqa: S103 (a program for every user)
            os.replace(made, out)
    except OSError as error:
        raise BuildError(f"the client can't be written to {out}: {error.strerror}") from None


def kept(
    name: str, sources: list[str] = CLIENT, *, sanitize: bool = False, constants: Mapping[str, int] = _NONE
) -> str:
    """Return a program in ${XDG_CACHE_HOME:-~/.cache}; it is compiled when what makes it changes. Raises BuildError."""
    makes: list[object] = [os.uname().machine, os.environ.get("CC"), sanitize, dict(constants)]
    for compiler in filter(None, map(shutil.which, (*os.environ.get("CC", "").split()[:1], "cc", "musl-gcc"))):
        makes += [compiler, os.stat(compiler).st_mtime_ns]
    folder = os.path.dirname(sources[0])
    for path in [__file__, *sources, *(os.path.join(folder, one) for one in sorted(glob.glob("*.h", root_dir=folder)))]:
        with open(path, "rb") as file:
            makes.append(file.read())
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    out = os.path.join(cache, "mpi-agents", "programs", hashlib.sha256(repr(makes).encode()).hexdigest()[:16], name)
    if not os.path.exists(out):
        try:
            os.makedirs(os.path.dirname(out), exist_ok=True)
        except OSError as error:
            why = f"{error.filename} can't be written: {error.strerror}; XDG_CACHE_HOME says where it goes"
            raise BuildError(f"{name} can't be kept: {why}") from None
        build(out, sanitize=sanitize, sources=sources, constants=constants)
    return out


def _compile(sources: list[str], out: str, flags: list[str]) -> None:
    compiler = os.environ.get("CC") or ("musl-gcc" if "-static" in flags and shutil.which("musl-gcc") else "cc")
    try:
        command = [*compiler.split(), *flags, *sources, "-o", out]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except (FileNotFoundError, PermissionError):
        raise BuildError(f"no C compiler: {compiler} can't be run; install gcc or clang, or set CC") from None
    if done.returncode == 0:
        return
    if "-lc" in done.stderr and "-static" in flags:
        raise BuildError(
            "no static C library: install libc6-dev (Debian), glibc-static (Fedora) or musl (then CC=musl-gcc)"
        )
    if any(library in done.stderr for library in ("-lasan", "libasan", "-lubsan", "libubsan")):
        raise BuildError(f"{compiler} has no address and undefined behaviour sanitizers: install libasan and libubsan")
    first = next((line for line in done.stderr.splitlines() if "error" in line), f"exit status {done.returncode}")
    raise BuildError(f"{compiler} can't compile {sources[0]}: {first.strip()}")


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit status (2: wrong usage, 1: can't be built)."""
    return run("rshagent.native.client_build", argv, CLIENT, _OTHERS)


def run(module: str, argv: list[str] | None, sources: list[str], others: Mapping[str, list[str]]) -> int:
    """Compile what a module's command line asks for: `sources`, or those of one of the options in `others`."""
    arguments = sys.argv[1:] if argv is None else argv
    outs = [argument for argument in arguments if not argument.startswith("-")]
    if len(outs) != 1 or set(arguments) - set(outs) - {"--sanitize", *others}:
        options = "".join(f" [{option}]" for option in ("--sanitize", *others))
        print(f"usage: python -m {module} OUT{options}", file=sys.stderr)
        return 2
    try:
        wanted = next((files for option, files in others.items() if option in arguments), sources)
        build(outs[0], sanitize="--sanitize" in arguments, sources=wanted)
    except BuildError as error:
        print(f"{module.rpartition('.')[2]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
