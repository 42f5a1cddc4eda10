"""What operators call as kubectl: `kubectl [options] exec [options] POD [options] -- COMMAND…`.

kubeflow's operators write a kubexec.sh that calls `/opt/kube/kubectl exec POD -- /bin/sh -c TEXT`; delivered under that
name, the agent understands it. `-i`, `-n` and `-c` mean what they mean to kubectl, and options that change neither
what is run nor where are passed over. All the rest (another command, another cluster or user, a pod that a deployment
stands for) is for the real kubectl: it runs on the launcher, from `kubectl.real` beside the agent, if it is there.

Options are read as pflag reads them: `-it`, `-nNS`, `-n=NS`, `--namespace=NS`, `--stdin=false`.
"""

from __future__ import annotations

from rshagent.arguments import Call, UsageError, shown

FOLDER = b"/opt/kube"
"""Where the agent is, if it was called by a name without a folder."""

USAGE = "kubectl exec [-i] [-n NAMESPACE] [-c CONTAINER] POD -- COMMAND…"

_TRUE, _FALSE = (b"1", b"t", b"T", b"true", b"TRUE", b"True"), (b"0", b"f", b"F", b"false", b"FALSE", b"False")
_LETTERS = {
    b"i": b"stdin", b"t": b"tty", b"q": b"quiet", b"c": b"container", b"n": b"namespace", b"v": b"v",
}  # fmt: skip
_SWITCHES = (b"stdin", b"tty", b"quiet", b"match-server-version", b"warnings-as-errors", b"disable-compression")
_VALUED = (
    b"container", b"namespace", b"request-timeout", b"pod-running-timeout", b"v", b"vmodule", b"log-flush-frequency",
    b"cache-dir", b"profile", b"profile-output", b"kuberc",
)  # fmt: skip
_OBEYED = (b"stdin", b"tty", b"container", b"namespace")
_PODS = (b"pod/", b"pods/", b"po/")
_SHELLS = (b"/bin/sh", b"sh")


class _ForReal(Exception):  # noqa: N818  # not an error: the call is another's
    """What of a call only the real kubectl knows."""


class _Options:
    """The options of a call, as they are read."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def take(self, words: list[bytes], at: int) -> int:
        """Take the option at words[at]; return where the next word is. Raises _ForReal, UsageError."""
        word = words[at]
        if word.startswith(b"--"):
            name, equals, value = word[2:].partition(b"=")
            if name in _SWITCHES:
                self._switch(name, value if equals else b"true", word)
            elif name not in _VALUED:
                raise _ForReal(shown(b"--" + name))
            elif equals:
                self._set(name, value, [word])
            else:
                at += 1
                self._set(name, _value(words, at, word), words[at - 1 : at + 1])
            return at + 1
        return self._take_letters(words, at)

    def _take_letters(self, words: list[bytes], at: int) -> int:
        word = words[at]
        for position in range(1, len(word)):
            name, rest = _LETTERS.get(word[position : position + 1]), word[position + 1 :]
            if name is None:
                raise _ForReal(shown(b"-" + word[position : position + 1]))
            if name in _VALUED:
                if rest:
                    self._set(name, rest.removeprefix(b"="), [word])
                    return at + 1
                self._set(name, _value(words, at + 1, word), words[at : at + 2])
                return at + 2
            if rest.startswith(b"="):
                self._switch(name, rest[1:], word)
                return at + 1
            self._switch(name, b"true", word)
        return at + 1

    def _switch(self, name: bytes, value: bytes, word: bytes) -> None:
        if value not in _TRUE and value not in _FALSE:
            raise UsageError(f"{shown(word)} is neither true nor false")
        if name == b"stdin":
            self.call.wants_stdin = value in _TRUE
        elif name == b"tty":
            self.call.wants_terminal = value in _TRUE
        if name not in _OBEYED[:1]:  # there is no terminal to be had, so -t is without effect, too
            self._pass_over([word])

    def _set(self, name: bytes, value: bytes, words: list[bytes]) -> None:
        if name not in _OBEYED:
            self._pass_over(words)
        elif not value:
            raise UsageError(f"option {shown(words[0])} needs a value")
        elif name == b"container":
            self.call.container = _text(value)
        else:
            self.call.namespace = _text(value)

    def _pass_over(self, words: list[bytes]) -> None:
        self.call.ignored += [_text(word) for word in words if _text(word) not in self.call.ignored]


def parse(argv: list[bytes]) -> Call:
    """Understand a call of kubectl, program name included. Raises UsageError."""
    try:
        return _parse_exec(argv[1:])
    except _ForReal as error:
        return _run_real(argv, str(error))


def _parse_exec(words: list[bytes]) -> Call:
    call = Call()
    call.wants_stdin = False
    options = _Options(call)
    at = _skip(options, words, 0)
    if at == len(words) or words[at] == b"--":
        raise _ForReal("a call without a command")
    if words[at] != b"exec":
        raise _ForReal(shown(words[at]))
    at = _skip(options, words, at + 1)
    if at == len(words) or words[at] == b"--":
        raise UsageError(f"no pod given. Usage: {USAGE}")
    call.host = _pod(words[at])
    at = _skip(options, words, at + 1)
    if at < len(words) and words[at] == b"--":  # without it, as kubectl had it once, the command begins here
        at += 1
    command = words[at:]
    if not command:
        raise UsageError(f"no command given for pod {call.host!a}. Usage: {USAGE}")
    call.text = _script(command)
    return call


def _skip(options: _Options, words: list[bytes], at: int) -> int:
    """Take options from words[at:]; return where the next other word, or `--`, is."""
    while at < len(words) and words[at].startswith(b"-") and words[at] not in (b"-", b"--"):
        at = options.take(words, at)
    return at


def _pod(word: bytes) -> str:
    name = next((word[len(prefix) :] for prefix in _PODS if word.startswith(prefix)), word)
    if b"/" in name:
        raise _ForReal(shown(word))
    if not name:
        raise UsageError(f"no pod given. Usage: {USAGE}")
    return _text(name)


def _script(command: list[bytes]) -> bytes:
    """Return what `/bin/sh -c` is to run: the shell that was asked for, or a shell that becomes the command."""
    if len(command) == 3 and command[0] in _SHELLS and command[1] == b"-c":
        return command[2]
    return b"exec " + _quoted(command)


def _run_real(argv: list[bytes], what: str) -> Call:
    """Return a call of the real kubectl on the launcher itself. Whether it is there can be seen only there."""
    folder = argv[0].rpartition(b"/")[0] if b"/" in argv[0] else FOLDER
    real = _quoted([folder + b"/kubectl.real"])
    said = (
        f"rshagent: {what} is not for this kubectl: it is mpi-agents' rsh agent, and knows only {USAGE}; "
        f"deliver the real one too, as {shown(folder + b'/kubectl.real')} (docs/delivery.md)"
    )
    call = Call()
    call.host = "localhost"
    call.text = b"[ -x %s ] && exec %s %s; printf '%%s\\n' %s >&2; exit 1" % (
        real,
        real,
        _quoted(argv[1:]),
        _quoted([said.encode()]),
    )
    return call


def _quoted(words: list[bytes]) -> bytes:
    """Quote for a shell."""
    return b" ".join([b"'" + word.replace(b"'", b"'\\''") + b"'" for word in words])


def _value(words: list[bytes], at: int, name: bytes) -> bytes:
    if at == len(words):
        raise UsageError(f"option {shown(name)} needs a value")
    return words[at]


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")
