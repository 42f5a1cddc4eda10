"""Copy the Python that runs this into a folder, with all that it needs, so that it runs where there is nothing else.

    python3 -m images.relocatable tree FOLDER PACKAGES    for users' containers: FOLDER/ld.so, bin, lib
    python3 -m images.relocatable root FOLDER PACKAGES COMMAND...    for our own image: as its root folder
    python3 -m images.relocatable share FOLDER            have files of one content in it be one file

PACKAGES is a folder of packages to take along, COMMANDs are entry points of theirs. A `tree` can be moved: it has its
own loader and C library, which direct_start.c calls by their paths, and of packages and the standard library no more
than what `rshagent` imports, early or late. A `root` has library and packages, except what no service needs, where
the loader looks for them. The image holds both, and most of the one is in the other.

Modules are compiled and go without their sources: nothing can be out of date, so nothing is checked.
"""

from __future__ import annotations

import hashlib
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from modulefinder import ModuleFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
STDLIB = sysconfig.get_path("stdlib")
EXTENSIONS = os.path.join(STDLIB, "lib-dynload")

# Found by the interpreter by name, not by an import statement.
_BY_NAME = ("encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_8")
# Imported by modules that rshagent uses, on ways that it does not go; each would draw others in.
_NOT_REACHED = (
    *("_aix_support", "_bootsubprocess", "_osx_support", "_py_abc", "_pydecimal", "_strptime", "_testcapi"),
    *("_testinternalcapi", "asyncio", "bz2", "calendar", "ctypes", "datetime", "distutils", "doctest", "email"),
    *("ftplib", "getpass", "http", "importlib.metadata", "importlib.readers", "importlib.resources", "inspect"),
    *("lib2to3", "logging", "lzma", "multiprocessing", "ntpath", "nturl2path", "pdb", "pickle", "pkgutil"),
    *("platform", "plistlib", "pydoc", "random", "ssl", "statistics", "subprocess", "sysconfig", "tarfile"),
    *("tempfile", "test", "tty", "unittest", "urllib", "webbrowser", "xml", "xmlrpc", "zipfile"),
)
_NOT_RUN = ("__init__.py", "client_build.py")  # a package goes by its own name; a compiler is not delivered
_LINKED = ("musl-dev",)  # into our static programs
# No service needs these: programs for people, tests, other systems.
_NOT_SERVED = re.compile(
    r"(__phello__|_sysconfigdata\w*|config-.*|curses|ensurepip|idlelib|lib2to3|pydoc_data|site-packages|dist-packages|"
    r"sqlite3|test|tests|tkinter|turtle\.py|turtledemo|unittest|venv|xmlrpc|__pycache__|"
    r"(_bz2|_ctypes_test|_curses\w*|_dbm|_lsprof|_sqlite3|_test\w+|_tkinter|_xx\w+|audioop|nis|ossaudiodev|readline|"
    r"xxlimited\w*)\..*)"
)
# The operator uses `kubernetes` for dictionaries alone. Nine tenths of it are typed models and a client for asyncio,
# which it imports late, by name; the others are what that client needs, time zones, what cffi compiles bindings by, and
# what only compilers read.
_NOT_PACKED = re.compile(
    r"(kubernetes/(aio|e2e_test|test)|kubernetes/client/(api|models)/(?!__init__)\w+\.py|bin|share|include|"
    r"(aiohappyeyeballs|aiohttp|aiohttp_retry|aiosignal|attr|attrs|cffi|frozenlist|multidict|propcache|pycparser|tzdata|"
    r"yarl)"
    r"(-[^/]*\.dist-info)?|.*\.(pyi|pyx|pxd|pxi|c|h|typed))"
)


def closure(packages: str, root: str, excluded: tuple[str, ...] = _NOT_REACHED) -> dict[str, str]:
    """What package `root` in folder `packages` imports anywhere: path under the library folder, and source file."""
    finder = ModuleFinder(path=[packages, STDLIB, EXTENSIONS], excludes=list(excluded))
    for name in (*_BY_NAME, *_modules(packages, root)):
        parent, _, leaf = name.rpartition(".")
        finder.import_hook(name)
        if parent:
            finder.import_hook(parent, None, [leaf])
    sources = {name: module.__file__ or "" for name, module in finder.modules.items()}  # type: ignore[attr-defined]
    ours = {name for name, source in sources.items() if source.startswith(f"{packages}/")}
    # Of a submodule's import it knows the submodule's name.
    missed = [name for name, users in finder.badmodules.items() if not ours.isdisjoint(users)]
    used = [name for name in excluded if any(f"{one}.".startswith(f"{name}.") for one in missed)]
    if used:  # by the package itself, or by another of the folder that it imports
        return closure(packages, root, tuple(name for name in excluded if name not in used))
    found: dict[str, str] = {}
    for name, source in sources.items():
        if source.startswith(EXTENSIONS):
            found[os.path.join("lib-dynload", os.path.relpath(source, EXTENSIONS))] = source
        elif source:
            found[os.path.relpath(source, STDLIB if source.startswith(STDLIB) else packages)] = source
        elif name not in sys.builtin_module_names:
            raise SystemExit(f"relocatable: module {name} has no file")
    return found


def _modules(packages: str, root: str) -> list[str]:
    names = []
    for folder, _, files in os.walk(os.path.join(packages, root)):
        package = os.path.relpath(folder, packages).replace("/", ".")
        names += [f"{package}.{file[:-3]}" for file in files if file.endswith(".py") and file not in _NOT_RUN]
        names += [package] if "__init__.py" in files else []
    return sorted(names)


def everything(packages: str) -> dict[str, str]:
    """The library except `_NOT_SERVED`, packages except `_NOT_PACKED`: path under the library folder, source file."""
    library = _files(STDLIB, lambda path: _NOT_SERVED.fullmatch(os.path.basename(path)) is None)
    packed = _files(packages, lambda path: _NOT_PACKED.fullmatch(path) is None)
    return library | {os.path.join("dist-packages", inside): path for inside, path in packed.items()}


def _files(base: str, is_wanted: Callable[[str], bool]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(base):
        inside = os.path.relpath(folder, base)
        paths = {name: os.path.normpath(os.path.join(inside, name)) for name in (*folders, *files)}
        folders[:] = [name for name in folders if name != "__pycache__" and is_wanted(paths[name])]
        found |= {paths[name]: os.path.join(folder, name) for name in files if is_wanted(paths[name])}
    return found


def copy_library(files: dict[str, str], library: str) -> None:
    """Compile modules into `library` and copy the other files there."""
    for place, source in sorted(files.items()):
        target = os.path.join(library, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if source.endswith(".py"):
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(source, f"{target}c", dfile=place, doraise=True, invalidation_mode=mode)
        else:
            shutil.copyfile(source, target)
    # The interpreter complains where this is missing, even if it has no use for it.
    os.makedirs(os.path.join(library, "lib-dynload"), exist_ok=True)


def shared_objects(programs: list[str]) -> tuple[str, dict[str, str]]:
    """Return the loader's path, and the libraries that `programs` are linked with: name and path."""
    found: dict[str, str] = {}
    loader = ""
    for program in programs:
        output = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        if "not found" in output:
            raise SystemExit(f"relocatable: {program} needs a library that is not there:\n{output}")
        found |= dict(re.findall(r"^\s*(\S+) => (/\S+) ", output, re.MULTILINE))
        loader = next(iter(re.findall(r"^\s*(/\S+) \(", output, re.MULTILINE)), loader)
    found.pop(os.path.basename(loader), None)  # where libc names it among its own
    return loader, found


def make_tree(folder: str, packages: str) -> None:
    """A Python for users' containers. VERSION is a hash of its content."""
    library = os.path.join(folder, "lib", VERSION)
    copy_library(closure(packages, "rshagent"), library)
    program = _copy(os.path.realpath(sys.executable), os.path.join(folder, "bin", "python3"))
    loader, objects = shared_objects([program, *_extensions(library)])
    _copy(loader, os.path.join(folder, "ld.so"))
    for name, path in objects.items():
        _copy(path, os.path.join(folder, "lib", name))
    with open(os.path.join(folder, "VERSION"), "w", encoding="ascii") as file:
        file.write(f"{digest(folder)}\n")


def make_root(folder: str, packages: str, *commands: str) -> None:
    """A Python for our own image, where the loader and its search path are the system's, and entry points on PATH."""
    prefix = os.path.join(folder, "usr/local")
    library = os.path.join(prefix, "lib", VERSION)
    taken = everything(packages)
    copy_library(taken, library)
    program = _copy(os.path.realpath(sys.executable), os.path.join(prefix, "bin", "python3"))
    # libgcc_s is loaded by name when a thread is ended.
    loader, objects = shared_objects([program, *_extensions(library), *_libgcc()])
    for path in (loader, *objects.values(), *_libgcc()):
        _copy(path, folder + path)
    _write_packages(folder, [os.path.realpath(sys.executable), loader, *objects.values(), *_libgcc(), *taken.values()])
    for entry in (entry for found in metadata.distributions(path=[packages]) for entry in found.entry_points):
        if entry.group == "console_scripts" and entry.name in commands:
            _write_command(os.path.join(prefix, "bin", entry.name), entry.module, entry.attr)


def _write_packages(folder: str, taken: list[str]) -> None:
    """List the Debian packages that files came from, where scanners look for it in images without dpkg."""
    both = {path for one in taken for path in (one, one.removeprefix("/usr"), f"/usr{one}")}  # the same since usrmerge
    asked = subprocess.run(["dpkg-query", "--search", *sorted(both)], capture_output=True, text=True, check=False)
    owners = {one for names in re.findall(r"^([^ /][^/]*): /", asked.stdout, re.MULTILINE) for one in names.split(", ")}
    owners = {one for one in owners if not one.startswith("diversion ")} | set(_LINKED)
    status = os.path.join(folder, "var/lib/dpkg/status.d")
    os.makedirs(status)
    for name in sorted(owners):
        status_of = subprocess.run(["dpkg-query", "--status", name], capture_output=True, text=True, check=False)
        if status_of.returncode == 0:
            with open(os.path.join(status, name.partition(":")[0]), "w", encoding="utf-8") as file:
                file.write(status_of.stdout)


def _write_command(path: str, module: str, function: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/usr/local/bin/python3 -I\n")
        file.write(f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n")
    os.chmod(path, 0o755)  # noqa: S103 (a program for every user)


def _libgcc() -> list[str]:
    cache = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"libgcc_s\.so\.1 .*=> (\S+)$", cache, re.MULTILINE)[:1]


def _extensions(library: str) -> list[str]:
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(library) for name in names]
    return sorted(path for path in paths if path.endswith(".so"))


def _copy(source: str, target: str) -> str:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, 0o755)  # noqa: S103 (programs for every user; the loader wants its objects so too)
    return target


def digest(folder: str) -> str:
    """A hash of all files' names and contents."""
    total = hashlib.sha256()
    for path in sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names):
        with open(path, "rb") as file:
            inner = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{os.path.relpath(path, folder)} {inner}\n".encode())
    return total.hexdigest()[:16]


def share(folder: str) -> None:
    """Have files of the same content and mode be hard links to one: an image's layer then holds it once."""
    first: dict[tuple[int, bytes], str] = {}
    for path in sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names):
        if os.path.islink(path):
            continue
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        known = first.setdefault((os.stat(path).st_mode, content), path)
        if known != path:
            os.unlink(path)
            os.link(known, path)


if __name__ == "__main__":
    does: dict[str, Callable[..., None]] = {"tree": make_tree, "root": make_root, "share": share}
    does[sys.argv[1]](*sys.argv[2:])
