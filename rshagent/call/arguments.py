"""What a launcher calls: `AGENT [options] [user@]HOST [options] COMMAND…`.

The options of ssh and rsh are taken before and after the host, as launchers put them in both places, and have no
effect; `--container NAME` and `--namespace NS` do. Everything after them is the command. Its words, joined by single
blanks, are TEXT: what `kubexec.sh` gives to `/bin/sh -c`. Callers have quoted for exactly one shell, so TEXT is never
split, quoted or expanded here. Called as kubectl, it understands `kubectl exec` and `get pods` (see `kubectl`).
"""

from __future__ import annotations

from agents.common.text import shown
from rshagent.call import kubectl
from rshagent.call.parsed import Call, UsageError, name_of, text_of

# ssh(1), OpenSSH 9.7, and rsh(1), whose -8 and -d ssh does not have. ssh's -k has no value, Kerberos rsh's has one (a
# realm): agents are called like ssh, so ssh's meaning counts where the two differ. -1 and -2 are of ssh before 7.6.
VALUED = frozenset(b"BbcDEeFIiJLlmOoPpQRSWw")
FLAGS = frozenset(b"1246AaCfGgKkMNnqsTtVvXxYy8d")
NAMED = (b"--container", b"--namespace")

STDIN_UNREAD = frozenset(b"nf")
"""ssh -n takes stdin from /dev/null, and -f implies it."""

SCRIPT = b"kubexec.sh"
"""Called by this name, the agent doesn't read stdin: the script it stands for runs `kubectl exec` without -i."""

KUBECTL = b"kubectl"

DISCOVER = b"--discover-hosts"
"""The one call that names no host: it asks for them (`discovery`). What follows (a script's path) means nothing."""

_SHEBANG_MAX = 256  # Linux reads no more of a first line

USAGE = "AGENT [options] [user@]HOST [options] COMMAND…"


def parse(argv: list[bytes]) -> Call:
    """Understand a whole argument vector, program name included.

    Raises UsageError.
    """
    if argv and _basename(argv[0]) == KUBECTL:
        return kubectl.parse(argv)
    call = Call()
    program, shebang, words = _program(argv)
    call.wants_stdin = _basename(program) != SCRIPT
    if _take_options(call, shebang, 0, known_only=True)[0] < len(shebang):
        raise UsageError(f"the first line of {shown(program)} has words that are no options")

    at, ended = _take_options(call, words, 0, known_only=True)
    if at == len(words):
        raise UsageError(f"no host given. Usage: {USAGE}")
    _take_host(call, words[at])
    at += 1
    if not ended:
        at, _ = _take_options(call, words, at, known_only=False)
    if at == len(words):
        raise UsageError(f"no command given for host {shown(call.host)}. Usage: {USAGE}")
    call.text = b" ".join(words[at:])
    return call


def _program(argv: list[bytes]) -> tuple[bytes, list[bytes], list[bytes]]:
    """Split a vector into the program's name, the options on its first line, and the words of the call.

    As the interpreter of a script the kernel passes [interpreter, (the first line's options, one string,) script's
    path, words…] (execve(2)).
    """
    name, words = (argv[0], argv[1:]) if argv else (b"", [])
    if words and _is_script(words[0]):
        return words[0], [], words[1:]
    if len(words) > 1 and words[0].startswith(b"-") and len(words[0]) < _SHEBANG_MAX and _is_script(words[1]):
        shebang = words[0].split()
        try:
            complete = _take_options(Call(), shebang, 0, known_only=True)[0] == len(shebang)
        except UsageError:
            complete = False  # `-i /path/of/key HOST`: the path is the option's value
        if complete:
            return words[1], shebang, words[2:]
    return name, [], words


def _is_script(word: bytes) -> bool:
    """Whether a word is the path by which a script was run: no host starts like one."""
    return word.startswith((b"/", b"./", b"../")) or _basename(word) == SCRIPT


def _take_options(call: Call, words: list[bytes], at: int, *, known_only: bool) -> tuple[int, bool]:
    """Take options from words[at:]; return where the next other word is, and whether `--` ended them.

    With known_only an unknown option is an error; else the command starts at it.
    """
    while at < len(words):
        word = words[at]
        if word == b"--":
            return at + 1, True
        if not word.startswith(b"-") or (word == b"-" and not known_only):
            break
        taken = _take_named(call, words, at) if word.startswith(b"--") else _take_letters(call, words, at)
        if not taken:
            if known_only:
                raise UsageError(f"unknown option {shown(word)}. Usage: {USAGE}")
            break
        at += taken
    return at, False


def _take_named(call: Call, words: list[bytes], at: int) -> int:
    """Take `--container X`, `--container=X` and the like; return how many words that took."""
    name, equals, value = words[at].partition(b"=")
    if name not in NAMED:
        return 0
    if not equals:
        value = _value(words, at, name)
    if not value:
        raise UsageError(f"option {shown(name)} needs a value")
    if name == b"--container":
        call.container = name_of(value)
    else:
        call.namespace = name_of(value)
    return 1 if equals else 2


def _take_letters(call: Call, words: list[bytes], at: int) -> int:
    """Take a cluster such as `-xq`, `-p2222` or `-xp 2222`; return how many words that took."""
    cluster = words[at][1:]
    taken = 1 if cluster else 0
    letters = set()
    for position, letter in enumerate(cluster):
        if letter not in VALUED and letter not in FLAGS:
            return 0
        letters.add(letter)
        if letter in VALUED:  # the rest of the word is its value, or else the next word
            if position == len(cluster) - 1:
                _value(words, at, b"-%c" % letter)
                taken = 2
            break
    if letters & STDIN_UNREAD:
        call.wants_stdin = False
    if letters - STDIN_UNREAD:
        call.ignored += [text_of(word) for word in words[at : at + taken]]
    return taken


def _value(words: list[bytes], at: int, name: bytes) -> bytes:
    if at + 1 == len(words):
        raise UsageError(f"option {shown(name)} needs a value")
    return words[at + 1]


def _take_host(call: Call, word: bytes) -> None:
    host = word.rpartition(b"@")[2]  # whoever the user is
    if not host:
        raise UsageError(f"no host in {shown(word)}. Usage: {USAGE}")
    call.host = name_of(host)


def _basename(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]
