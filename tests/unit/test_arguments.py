"""Calls as launchers and people make them → what is run where."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rshagent.call.arguments import VALUED, parse
from rshagent.call.parsed import UsageError


def call(line: str, program: str = "rshagent") -> tuple[str, str]:
    """Parse words parted by blanks; return host and TEXT."""
    parsed = parse([program.encode(), *line.encode().split(b" ")])
    return parsed.host, parsed.text.decode()


@pytest.mark.parametrize(
    ("line", "host", "text"),
    [
        ("w-0 true", "w-0", "true"),
        ("-x w-0 echo a", "w-0", "echo a"),
        ("-q -x w-0 echo -x -q", "w-0", "echo -x -q"),
        ("-xq w-0 echo", "w-0", "echo"),
        ("-p 2222 w-0 echo", "w-0", "echo"),
        ("-p2222 w-0 echo", "w-0", "echo"),
        ("-xp 2222 w-0 echo", "w-0", "echo"),
        ("-xp2222 w-0 echo", "w-0", "echo"),
        ("-oX=Y -o A=B w-0 echo", "w-0", "echo"),
        ("-i /home/me/key w-0 echo", "w-0", "echo"),
        ("-i /home/me/key -n w-0 echo", "w-0", "echo"),
        ("-F /dev/null w-0 echo", "w-0", "echo"),
        ("-l me w-0 echo", "w-0", "echo"),
        ("-8d w-0 echo", "w-0", "echo"),
        ("-k w-0 echo", "w-0", "echo"),
        ("-o A=B w-0 -p 2222 -i key -o C=D echo -p 1", "w-0", "echo -p 1"),
        ("w-0 -xp 2222 -- -n echo", "w-0", "-n echo"),
        ("w-0 -- echo -- x", "w-0", "echo -- x"),
        ("-- w-0 -n echo", "w-0", "-n echo"),
        ("w-0 -Z echo", "w-0", "-Z echo"),
        ("w-0 -nZ echo", "w-0", "-nZ echo"),
        ("w-0 --version", "w-0", "--version"),
        ("w-0 - a", "w-0", "- a"),
        ("me@w-0 echo", "w-0", "echo"),
        ("me@there@w-0 echo", "w-0", "echo"),
        ("team-a/w-0 echo", "team-a/w-0", "echo"),
        ("fd00::1 echo", "fd00::1", "echo"),
        ("w-0  orted -mca  ess ", "w-0", " orted -mca  ess "),
    ],
)
def test_host_and_text(line: str, host: str, text: str) -> None:
    assert call(line) == (host, text)


@pytest.mark.parametrize(
    ("line", "container", "namespace"),
    [
        ("w-0 echo", None, None),
        ("--container main w-0 echo", "main", None),
        ("--container=main w-0 echo", "main", None),
        ("w-0 --container main echo", "main", None),
        ("w-0 -q --namespace=team-a --container=main echo --container x", "main", "team-a"),
        ("-q --namespace team-a w-0 echo", None, "team-a"),
        ("--container a w-0 --container b echo", "b", None),
    ],
)
def test_options_with_an_effect(line: str, container: str | None, namespace: str | None) -> None:
    parsed = parse([b"rshagent", *line.encode().split()])
    assert (parsed.container, parsed.namespace, parsed.host) == (container, namespace, "w-0")
    assert not any(word.startswith("--") for word in parsed.ignored)


@pytest.mark.parametrize(
    ("line", "ignored"),
    [
        ("w-0 echo -x", []),
        ("-x -p 2222 w-0 -oA=B -i key echo", ["-x", "-p", "2222", "-oA=B", "-i", "key"]),
        ("-n -f --container=a w-0 echo", []),
        ("-nx w-0 echo", ["-nx"]),
    ],
)
def test_ignored_options(line: str, ignored: list[str]) -> None:
    assert parse([b"rshagent", *line.encode().split()]).ignored == ignored


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        ("rshagent w-0 cat", True),
        ("/opt/kube/rshagent w-0 cat -n", True),
        ("ssh -on w-0 cat", True),
        ("rshagent -n w-0 cat", False),
        ("rshagent -xn w-0 cat", False),
        ("rshagent -f w-0 cat", False),
        ("rshagent w-0 -n cat", False),
        ("/etc/mpi/kubexec.sh w-0 cat", False),
        ("kubexec.sh w-0 cat", False),
        ("/opt/kube/rshagent /etc/mpi/kubexec.sh w-0 cat", False),
        ("/opt/kube/rshagent ./kubexec.sh w-0 cat", False),
        ("/opt/kube/rshagent mpi/kubexec.sh w-0 cat", False),
        ("/opt/kube/rshagent /opt/agent/ssh w-0 cat", True),
        ("/opt/kube/rshagent -x /opt/agent/ssh -n w-0 cat", False),
    ],
)
def test_wants_stdin(argv: str, wanted: bool) -> None:
    parsed = parse(argv.encode().split())
    assert parsed.wants_stdin is wanted
    assert parsed.host == "w-0"


def test_shebang_options_are_one_word() -> None:
    parsed = parse([b"/opt/kube/rshagent", b"--container main -q", b"/etc/mpi/kubexec.sh", b"w-0", b"a", b"b"])
    assert (parsed.container, parsed.host, parsed.text) == ("main", "w-0", b"a b")
    assert not parsed.wants_stdin


def test_user() -> None:
    assert parse([b"ssh", b"me@w-0", b"true"]).host == "w-0"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "no host"),
        ("-x", "no host"),
        ("-x -p 22", "no host"),
        ("--", "no host"),
        ("w-0", "no command given for host 'w-0'"),
        ("w-0 -x", "no command"),
        ("w-0 --", "no command"),
        ("-p", "option '-p' needs a value"),
        ("w-0 -p", "option '-p' needs a value"),
        ("--container", "option '--container' needs a value"),
        ("--namespace= w-0 true", "option '--namespace' needs a value"),
        ("-Z w-0 true", "unknown option '-Z'"),
        ("-xZ w-0 true", "unknown option '-xZ'"),
        ("- w-0 true", "unknown option '-'"),
        ("--help", "unknown option '--help'"),
        ("me@ true", "no host in 'me@'"),
    ],
)
def test_calls_that_make_no_sense(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", "\\(")) as raised:
        parse([b"rshagent", *line.encode().split()])
    assert "\n" not in str(raised.value)


def test_no_arguments_at_all() -> None:
    with pytest.raises(UsageError):
        parse([])


def test_messages_are_one_line() -> None:
    with pytest.raises(UsageError) as raised:
        parse([b"rshagent", b"-\n\xff", b"w-0"])
    assert str(raised.value).isascii() or "\n" not in str(raised.value)
    assert "\\n\\udcff" in str(raised.value)


OPTIONS = st.one_of(
    st.sampled_from([b"-x", b"-q", b"-xq", b"-n", b"-p22", b"-oA=B", b"--container=c", b"--namespace=n"]).map(
        lambda word: [word]
    ),
    st.tuples(st.sampled_from([b"-p", b"-o", b"-xi", b"--container"]), st.binary(min_size=1)).map(list),
)
PATH_OR_VALUE = st.lists(OPTIONS, max_size=4).map(lambda lists: [word for words in lists for word in words])


@given(st.lists(st.one_of(st.binary(max_size=8), st.sampled_from([b"-", b"--", b"-p", b"/a", b"w-0"])), max_size=8))
def test_never_fails_otherwise(argv: list[bytes]) -> None:
    try:
        parsed = parse(argv)
    except UsageError as raised:
        said, host = str(raised), ""
    else:
        said, host = "", parsed.host
        assert parsed.text in b" ".join(argv)
    assert bool(said) != bool(host)
    assert "\n" not in said


@given(before=PATH_OR_VALUE, after=PATH_OR_VALUE, words=st.lists(st.binary(max_size=20), min_size=1))
def test_text_is_kept_whatever_it_is(before: list[bytes], after: list[bytes], words: list[bytes]) -> None:
    parsed = parse([b"rshagent", *before, b"w-0", *after, b"--", *words])
    assert parsed.text == b" ".join(words)
    assert parsed.host == "w-0"
    if not words[0].startswith(b"-"):
        assert parse([b"rshagent", *before, b"w-0", *after, *words]).text == parsed.text


@given(st.binary(min_size=1, max_size=3).filter(lambda word: not word.startswith(b"-")))
def test_options_have_no_effect_on_others(value: bytes) -> None:
    for letter in VALUED:
        parsed = parse([b"rshagent", b"-%c" % letter, value, b"w-0", b"true"])
        assert (parsed.host, parsed.text, parsed.wants_stdin) == ("w-0", b"true", True)
        assert parsed.ignored[0] == f"-{letter:c}"
        assert os.fsencode(parsed.ignored[1]) == value
