"""The request under every shell this machine has: same effect as `/bin/sh -c TEXT`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shell_places import ENVIRONMENT, MARK, SHELLS, Place, place

from rshagent.call.bootstrap import MAX_ARGUMENT, SHORT_TEXT, Mark, acknowledgement, request, success

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["place"]

SESSION = acknowledgement("session")


class Outcome:
    def __init__(
        self, command: list[bytes], stdin: bytes, *, ignored: bool = False, extra: dict[str, str] | None = None
    ) -> None:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            env=ENVIRONMENT | (extra or {}),
            check=False,
            preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None,
        )
        self.stdout = done.stdout
        # A shell reports a signal's death of its child as 128+n; the CRI does so for a direct child.
        self.status = 128 - done.returncode if done.returncode < 0 else done.returncode
        self.acknowledged, self.is_confirmed = b"", False
        self.stderr = re.sub(rb"sh: \d+: ", b"sh: PID: ", done.stderr)
        if SESSION in done.stderr:
            before, self.acknowledged, after = self.stderr.partition(SESSION)
            pid, _, rest = after.partition(b"\n")
            assert pid.strip().isdigit()
            assert pid.startswith(b" ")
            assert before == b""
            self.stderr = rest.replace(success(SESSION), b"")
            self.is_confirmed = self.stderr != rest


TEXTS = {
    "plain": b"echo hello",
    "words": b"""printf '<%s>' a "b  c" $HOME 'd"e'  f; echo""",
    "leading blanks": b"   \t echo  x   ",
    "literal quotes": b'"echo" "a b" \\"c\\"',
    "newlines": b"echo a\necho b\n\n",
    "comment at the end": b"echo a # no more",
    "backslash at the end": b"printf '%s' a\\",
    "continuation": b"echo a\\\nb",
    "redirection": b"{ echo out; echo err >&2; } 2>&1 | tr a-z A-Z; echo err >&2",
    "status": b"exit 3",
    "status of the last": b"false",
    "not found": b"exec /no/such/file",
    "syntax error": b"echo before\nif then",
    "csh": b"setenv A b;if ( $?A == 1 ) set x",
    "name, arguments and options": b'echo "$0|$#|$-|$*"',
    "environment": b"env | grep -v -e ^MPI_AGENT_MARK= -e ^_= -e ^_AST_FEATURES= | LC_ALL=C sort",
    "variables": b"set | grep -e ^_[nptkrlc]= -e '^[sdf]='",
    "open files": b"ls /proc/self/fd; ls -l /proc/self/fd | grep -c -e pipe -e null",
    "place and mask": b"pwd; umask; ulimit -n",
    "traps": b"trap 'echo trapped' EXIT; trap; exit 4",
    "ignored signal": b"kill -INT $$; echo not ignored? $?",
    "killed": b"kill -9 $$",
    "terminated": b"kill -TERM $$",
    "aborted child": b"(ulimit -c 0; kill -ABRT $$); echo unreached",
    "child killed": b"sh -c 'kill -9 $$'; exit $?",
    "stdin": b'read -r x; echo "got $x"; cat',
    "in the background": b"(echo late) & wait; echo $?",
    "its own exec": b"exec sh -c 'echo $0; exit 5' name",
    "not UTF-8": b"printf '%s' '\xff\xfe\x81\x88\xc3' | od -c",
    "empty": b"",
    "only blanks": b"  \n ",
}


@pytest.mark.parametrize("by_stdin", [False, True], ids=["in the request", "by stdin"])
@pytest.mark.parametrize("name", TEXTS)
def test_same_effect(place: Place, name: str, by_stdin: bool) -> None:
    if place.shell == "zsh" and name == "ignored signal":
        pytest.skip("zsh gives ignored signals back in subshells")
    text, stdin, ignored = TEXTS[name], b" first \nsecond\n\xff\x81", "signal" in name
    direct = Outcome([bytes(place.sh), b"-c", text], stdin, ignored=ignored)
    asked = request(text, MARK, forwards_stdin=True, text_by_stdin=by_stdin)
    ours = Outcome(place.placed(asked.command), asked.stdin + stdin, ignored=ignored)
    assert asked.needs_stdin
    assert (ours.stdout, ours.stderr, ours.status) == (direct.stdout, direct.stderr, direct.status)
    assert ours.acknowledged
    assert ours.is_confirmed == (direct.status == 0)
    assert place.kept().split()[::2] == ["session", str(direct.status)]


@pytest.mark.parametrize("by_stdin", [False, True], ids=["in the request", "by stdin"])
@pytest.mark.parametrize("level", [None, "5"])
def test_nesting_level(place: Place, level: str | None, by_stdin: bool) -> None:
    if place.shell == "mksh" and level:
        pytest.skip("mksh doesn't count, but looks as if it did")
    extra = {"SHLVL": level} if level else {}
    direct = Outcome([bytes(place.sh), b"-c", b"echo $SHLVL; env | grep SHLVL; :"], b"", extra=extra)
    asked = request(b"echo $SHLVL; env | grep SHLVL; :", MARK, text_by_stdin=by_stdin)
    assert Outcome(place.placed(asked.command), asked.stdin, extra=extra).stdout == direct.stdout


@pytest.mark.parametrize("forwards", [False, True], ids=["stdin unread", "stdin forwarded"])
@pytest.mark.parametrize("size", [SHORT_TEXT, SHORT_TEXT + 1, MAX_ARGUMENT, MAX_ARGUMENT + 1], ids=str)
def test_long_text(place: Place, size: int, forwards: bool) -> None:
    head = b"cksum <<'END'\n"
    tail = b"\nEND\necho $0 $# ${_t-unset} ${_n-unset} ${_l-unset} ${_c-unset};cat;exit 7"
    content = (b"long \\ \t\n" * (size // 8))[: size - len(head) - len(tail)]
    text = head + content + tail
    assert len(text) == size
    asked = request(text, MARK, forwards_stdin=forwards)
    assert sum(map(len, asked.command)) < 900 + SHORT_TEXT
    assert bool(asked.stdin) == (size > SHORT_TEXT)
    ours = Outcome(place.placed(asked.command), asked.stdin + b"what follows" * (forwards or bool(asked.stdin)))
    counted = subprocess.run(["cksum"], input=content + b"\n", capture_output=True, check=True).stdout
    expected = counted + f"{place.sh} 0 unset unset unset unset\n".encode() + b"what follows" * forwards
    assert (ours.stdout, ours.stderr, ours.status) == (expected, b"", 7)
    assert ours.acknowledged
    assert place.kept().endswith(" 7\n")


@pytest.mark.parametrize("size", [0, SHORT_TEXT, MAX_ARGUMENT])
def test_nothing_starts_that_nobody_would_hear_of(place: Place, tmp_path: Path, size: int) -> None:
    asked = request(f": >{tmp_path}/started;".encode() + b":;" * size, MARK)
    reader, stderr = os.pipe()
    os.close(reader)
    done = subprocess.run(place.placed(asked.command), input=asked.stdin, stderr=stderr, check=False, env=ENVIRONMENT)
    os.close(stderr)
    assert done.returncode
    assert not (tmp_path / "started").exists()
    with pytest.raises(FileNotFoundError):
        place.kept()


# What shells use to mark quoted text inside, halves of UTF-8 characters, and what `read` takes for special.
TROUBLESOME = st.lists(st.sampled_from(b"\x01\x7f\x81\x82\x88\xc2\xe2\xff\\ \t\n'a")).map(bytes)


@pytest.mark.parametrize("name", SHELLS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    content=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode()), TROUBLESOME).map(
        lambda each: each.replace(b"\0", b"")
    ),
    by_stdin=st.booleans(),
)
def test_any_bytes(name: str, content: bytes, by_stdin: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = Place(name, tmp_path_factory.mktemp("place"))
    text = b"printf %s '" + content.replace(b"'", b"'\\''") + b"'"
    asked = request(text, MARK, text_by_stdin=by_stdin)
    assert Outcome(place.placed(asked.command), asked.stdin + b"not for TEXT\n").stdout == content


def test_where_text_goes() -> None:
    text = "echo 'ä €' \n".encode()
    assert request(text, MARK).command[3:] == [b"sh", text]
    assert request(text, MARK).stdin == b""
    assert not request(text, MARK).needs_stdin
    for unfit in (b"echo \xff", b"x" * (SHORT_TEXT + 1)):
        asked = request(unfit, MARK)
        assert asked.stdin == unfit + b"\n"
        assert asked.needs_stdin
        assert not any(unfit in part for part in asked.command)


def test_short_enough_for_a_url() -> None:
    mark = Mark("l" * 40, "w" * 40, "1234567890-4026531841", "s" * 24)
    assert sum(map(len, request(b"", mark).command)) < 620
    assert sum(map(len, request(b"", mark, text_by_stdin=True).command)) < 800
    assert sum(map(len, request(b"", mark, attempt=1, sweep=True).command)) < 1350


@pytest.mark.parametrize("size", [100, MAX_ARGUMENT + 100])
def test_cut_text_does_not_run(place: Place, size: int) -> None:
    asked = request(b"echo started\n#" + b"x" * size, MARK, text_by_stdin=True)
    ours = Outcome(place.placed(asked.command), asked.stdin[:-1])
    assert (ours.stdout, ours.acknowledged, ours.status) == (b"", b"", 255)


def test_status_goes_to_the_next_folder(place: Place, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (place.folders[0] / ".mpi-agent-status").symlink_to(target)
    Outcome(place.placed(request(b"exit 5", MARK).command), b"")
    assert target.read_text() == "precious"
    assert place.kept(1).split()[::2] == ["session", "5"]


def test_no_folder_for_the_status(place: Place) -> None:
    for folder in place.folders:
        folder.rmdir()
    ours = Outcome(place.placed(request(b"echo ran;exit 5", MARK).command), b"", extra={"HOME": "/no/such"})
    assert (ours.stdout, ours.stderr, ours.status) == (b"ran\n", b"", 5)


@pytest.mark.parametrize("part", ["", "a b", "a;b", "$(x)", "a\n", "ä", "a:b", "a/b", "*"])
def test_mark_is_safe_in_a_shell(part: str) -> None:
    for position in range(4):
        parts = ["ok"] * 4
        parts[position] = part
        with pytest.raises(ValueError, match="mark"):
            Mark(*parts)
