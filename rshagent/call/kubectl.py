"""What scripts call as kubectl: `kubectl [options] exec [options] POD [options] -- COMMAND…`, and `get pods`.

kubeflow's operators write a kubexec.sh that calls `/opt/kube/kubectl exec POD -- /bin/sh -c TEXT`; delivered under that
name, the agent understands it. `-i`, `-n` and `-c` mean what they mean to kubectl, and options that change neither
what is run nor where are passed over. `get pods` shows the job's workers (`kubectl_get`). Anything else (another
command, another cluster or user, a pod that a deployment stands for) is for the real kubectl: it runs on the launcher,
from `kubectl.real` beside the agent, if it is there. Where it is, it does `get pods` too.

Options are read as pflag reads them: `-it`, `-nNS`, `-n=NS`, `--namespace=NS`, `--stdin=false`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.common.text import shown
from rshagent.call import kubectl_get
from rshagent.call.kubectl_get import Query
from rshagent.call.parsed import Call, UsageError, name_of, text_of

FOLDER = b"/opt/kube"
"""Where the agent is, if it was called by a name without a folder."""

USAGE = "kubectl exec [-i] [-n NAMESPACE] [-c CONTAINER] POD -- COMMAND…"
GET_USAGE = "kubectl get pods [NAME…] [-o name|wide] [-l LABELS]"

_TRUE, _FALSE = (b"1", b"t", b"T", b"true", b"TRUE", b"True"), (b"0", b"f", b"F", b"false", b"FALSE", b"False")
_LETTERS = {
    b"i": b"stdin", b"t": b"tty", b"q": b"quiet", b"c": b"container", b"n": b"namespace", b"v": b"v",
}  # fmt: skip
_SWITCHES = (b"stdin", b"tty", b"quiet", b"match-server-version", b"warnings-as-errors", b"disable-compression")
_VALUED = (
    b"container", b"namespace", b"request-timeout", b"pod-running-timeout", b"v", b"vmodule", b"log-flush-frequency",
    b"cache-dir", b"profile", b"profile-output", b"kuberc",
)  # fmt: skip
_GET_LETTERS = {b"o": b"output", b"l": b"selector", b"n": b"namespace", b"v": b"v"}
_GET_SWITCHES = (b"no-headers", b"ignore-not-found", *_SWITCHES[3:])
_GET_VALUED = (b"output", b"selector", b"field-selector", b"chunk-size", *_VALUED[1:])
_OBEYED = (b"stdin", b"tty", b"container", b"namespace")
_PODS = (b"pod/", b"pods/", b"po/")
_SHELLS = (b"/bin/sh", b"sh")
_IGNORED_MAX = 100
_LETTERS_MAX = 8192
_QUOTED_MAX = 4 << 20  # as much as a client can send: a quote becomes four bytes


class _ForReal(Exception):  # noqa: N818  # not an error: the call is another's
    """What only the real kubectl can do."""


class _Options:
    """The options of a call, as they are read."""

    letters: Mapping[bytes, bytes] = _LETTERS
    switches: Sequence[bytes] = _SWITCHES
    valued: Sequence[bytes] = _VALUED

    def __init__(self, call: Call) -> None:
        self.call = call

    def take(self, words: list[bytes], at: int) -> int:
        """Take the option at words[at]; return where the next word is. Raises _ForReal, UsageError."""
        word = words[at]
        if word.startswith(b"--"):
            name, equals, value = word[2:].partition(b"=")
            if name in self.switches:
                self._switch(name, value if equals else b"true", word)
            elif name not in self.valued:
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
        if len(word) > _LETTERS_MAX:  # what follows takes the square of its length
            raise _ForReal(shown(word))
        for position in range(1, len(word)):
            name, rest = self.letters.get(word[position : position + 1]), word[position + 1 :]
            if name is None:
                raise _ForReal(shown(b"-" + word[position : position + 1]))
            if name in self.valued:
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
        if name not in _OBEYED[:1]:  # no terminal can be provided, so -t has no effect either
            self._pass_over([word])

    def _set(self, name: bytes, value: bytes, words: list[bytes]) -> None:
        if name not in _OBEYED:
            self._pass_over(words)
        elif not value:
            raise UsageError(f"option {shown(words[0])} needs a value")
        elif name == b"container":
            self.call.container = name_of(value)
        else:
            self.call.namespace = name_of(value)

    def _pass_over(self, words: list[bytes]) -> None:
        if len(self.call.ignored) < _IGNORED_MAX:  # it is shown to people, and each word is compared with all
            self.call.ignored += [text_of(word) for word in words if text_of(word) not in self.call.ignored]


class _GetOptions(_Options):
    """Those of `get`."""

    letters, switches, valued = _GET_LETTERS, _GET_SWITCHES, _GET_VALUED

    def __init__(self, call: Call, query: Query) -> None:
        super().__init__(call)
        self.query = query

    def _switch(self, name: bytes, value: bytes, word: bytes) -> None:
        super()._switch(name, value, word)
        if name == b"no-headers":
            self.query.shows_head = value in _FALSE
        elif name == b"ignore-not-found":
            self.query.may_be_missing = value in _TRUE

    def _set(self, name: bytes, value: bytes, words: list[bytes]) -> None:  # noqa: ARG002
        if name == b"namespace":
            self.query.namespace = text_of(value) or None
        else:
            self.query.take_option(name, text_of(value))


def parse(argv: list[bytes]) -> Call:
    """Understand a call of kubectl, program name included. Raises UsageError."""
    try:
        return _parse(argv)
    except _ForReal as error:
        return _on_launcher(argv, _not_ours(argv, str(error)))


def _parse(argv: list[bytes]) -> Call:
    words = argv[1:]
    call = Call()
    call.wants_stdin = False
    options = _Options(call)
    at = _skip(options, words, 0)
    if at == len(words) or words[at] == b"--":
        raise _ForReal("a call without a command")
    if words[at] == b"get":
        return _parse_get(argv, words[at + 1 :], call.namespace)
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
        raise UsageError(f"no command given for pod {shown(call.host)}. Usage: {USAGE}")
    call.text = _script(command)
    return call


def _parse_get(argv: list[bytes], words: list[bytes], namespace: str | None) -> Call:
    call, query, names, at = _on_launcher(argv, b""), kubectl_get.Query(namespace), [], 0
    options = _GetOptions(call, query)
    try:
        while (at := _skip(options, words, at)) < len(words):
            names += [text_of(word) for word in (words[at + 1 :] if words[at] == b"--" else words[at : at + 1])]
            at = len(words) if words[at] == b"--" else at + 1
        query.take_words(names)
    except (UsageError, kubectl_get.Unsupported) as error:  # kubectl's exit code, as for all that is wrong with a `get`
        raise _ForReal(f"'get' ({error})") from None
    call.query = query
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
    return name_of(name)


def _script(command: list[bytes]) -> bytes:
    """Return what `/bin/sh -c` is to run: the shell that was asked for, or a shell that becomes the command."""
    if len(command) == 3 and command[0] in _SHELLS and command[1] == b"-c":
        return command[2]
    return b"exec " + _quoted(command)


def real(argv: list[bytes]) -> bytes:
    """Return where the real kubectl is, if it was delivered too."""
    return (argv[0].rpartition(b"/")[0] if b"/" in argv[0] else FOLDER) + b"/kubectl.real"


def _on_launcher(argv: list[bytes], otherwise: bytes) -> Call:
    """Return a call of the real kubectl on the launcher itself. Only a process there can see whether it exists."""
    path = _quoted([real(argv)])
    call = Call()
    call.host = "localhost"
    call.text = b"[ -x %s ] && exec %s %s; %s" % (path, path, _quoted(argv[1:]), otherwise)
    return call


def _not_ours(argv: list[bytes], what: str) -> bytes:
    said = (
        f"rshagent: {what} is not for this kubectl: it is mpi-agents' client, and knows only {USAGE} and {GET_USAGE}. "
        f"For the real kubectl the MPIJob needs spec.tools: [kubectl]; under another operator it is delivered as "
        f"{shown(real(argv))} (docs/delivery.md)"
    )
    return b"printf '%%s\\n' %s >&2; exit 1" % _quoted([said.encode()])


def _quoted(words: list[bytes]) -> bytes:
    """Quote for a shell. Raises UsageError for what would become too much."""
    if sum([len(word) + 3 * word.count(b"'") for word in words]) > _QUOTED_MAX:
        raise UsageError(f"quoted for a shell, the call is longer than {_QUOTED_MAX >> 20} MiB")
    return b" ".join([b"'" + word.replace(b"'", b"'\\''") + b"'" for word in words])


def _value(words: list[bytes], at: int, name: bytes) -> bytes:
    if at == len(words):
        raise UsageError(f"option {shown(name)} needs a value")
    return words[at]
