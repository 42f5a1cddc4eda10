"""Calls of real launchers, as they were recorded: each one parsed, and its request run beside `/bin/sh -c TEXT`.

The programs that a command names exist in no test machine, so each test has stand-ins for them that tell what reached
them: their name, arguments, directory and environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rshagent.call.arguments import parse
from rshagent.call.bootstrap import success
from rshagent.call.explain import describe
from rshagent.call.hosts import Entry, Resolver

CALLS = Path(__file__).with_name("launcher_calls")
VALUED = {"-o", "-p", "-i", "--container", "--namespace"}
PROGRAMS = ("orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "python", "python3", "hostname", "nice")
ROOTS = re.compile(r"(?<![\w.])/(opt|usr/bin|home/mpiuser|usr/lib)(?=[/\w:; ]|$)")

STAND_IN = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$#" "$@" "$PWD"
echo "on stderr" >&2
env -0
exit 7
"""


def recorded() -> list[Any]:
    found = []
    for file in sorted(CALLS.glob("*.json")):
        for number, call in enumerate(json.loads(file.read_text())["calls"]):
            found.append(pytest.param(call, id=f"{file.stem}-{number}"))
    return found


def expected(argv: list[str], host: str) -> tuple[list[str], str]:
    """By the recording's own rules: its host is one of the words, what isn't an option after it is the command."""
    at = next(n for n, word in enumerate(argv) if n and word == host)
    options, at = argv[1:at], at + 1
    while argv[at].startswith("-"):
        taken = 2 if argv[at] in VALUED else 1
        options += argv[at : at + taken]
        at += taken
    return options, " ".join(argv[at:])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in for each program, at each place where a recorded command looks for it."""
    root = tmp_path_factory.mktemp("root")
    words = {word for param in recorded() for word in param.values[0]["argv"]}
    places = {
        found[0] for word in words for found in re.finditer(rf"/(?:opt|usr)/[\w./-]*/(?:{'|'.join(PROGRAMS)})\b", word)
    }
    for place in {*places, *(f"/usr/bin/{name}" for name in PROGRAMS)}:
        stand_in = root / place.lstrip("/")
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
    (root / "home/mpiuser").mkdir(parents=True)
    (root / "home/mpiuser/.profile").write_text("FROM_PROFILE=yes; export FROM_PROFILE\n")
    return root


def run(command: list[bytes], root: Path) -> tuple[list[bytes], bytes, int]:
    """Return what reached the stand-ins (the environment in any order), stderr, and the status."""
    environment = {
        "PATH": f"{root}/usr/bin:/usr/bin:/bin",
        "HOME": f"{root}/home/mpiuser",
        "LD_LIBRARY_PATH": "/lib one:/lib'two",
        "SHELL": "/bin/sh",
    }
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, cwd=environment["HOME"], check=False
    )
    told = [each for each in done.stdout.split(b"\0") if not each.startswith((b"MPI_AGENT_MARK=", b"_="))]
    return sorted(told), done.stderr, done.returncode


@pytest.mark.parametrize("call", recorded())
def test_recorded_call(call: dict[str, Any], root: Path) -> None:
    argv = [ROOTS.sub(lambda found: f"{root}{found[0]}", word) for word in call["argv"]]
    options, text = expected(argv, call["host"])
    parsed = parse([os.fsencode(word) for word in argv])
    host = call["host"].removeprefix("mpiuser@")
    pod, _, domain = host.partition(".")
    is_address = host.replace(".", "").isdigit()
    known = [Entry(host if is_address else pod)]
    worker = Resolver(known, {}, "default").resolve(parsed.host, parsed.namespace)
    explained: Any = describe(parsed, worker, {})
    asked = options[options.index("--namespace") + 1] if "--namespace" in options else "default"
    assert explained["pod"] == (host if is_address else pod)
    assert explained["namespace"] == ("team-a" if ".team-a.svc" in domain else asked)
    assert explained["container"] == (options[options.index("--container") + 1] if "--container" in options else None)
    assert explained["command"][:2] + explained["command"][3:] == ["/bin/sh", "-c", "sh", text]
    assert "stdin" not in explained
    effective = {"--namespace", "--container", asked, explained["container"]}
    assert explained["ignored"] == [word for word in options if word not in effective]

    direct = run([b"/bin/sh", b"-c", os.fsencode(text)], root)
    shown = [os.fsencode(word).replace(b"/dev/shm ", os.fsencode(f"{root} ")) for word in explained["command"]]
    told, stderr, status = run(shown, root)
    acknowledged, _, rest = stderr.partition(b"\n")
    assert re.fullmatch(rb"mpi-agent session \d+", acknowledged)
    confirmed = success(b"mpi-agent session") if status == 0 else b""
    assert rest.endswith(confirmed)
    assert (told, rest.removesuffix(confirmed), status) == direct
    if b"yntax error" not in direct[1] and text not in ("true", "false", "echo $SHELL"):
        assert b"on stderr\n" in direct[1], "a stand-in is missing"
    kept = (root / ".mpi-agent-status").read_text().splitlines()[-1]
    assert kept == f"session {acknowledged.split()[-1].decode()} {status}"
