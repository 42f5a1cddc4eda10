"""Takes secrets out of what is handed to others: objects, logs, messages. Pure.

By names (TOKEN=…, "password": …, --api-key …), by form (private keys, tokens of known services, JSON web tokens) and by
place (URLs with credentials, Authorization headers, options of known programs). A value without any is not found.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from agents.job.json_object import Body, Object
from agents.job.model import LAST_APPLIED

MARK = "[redacted]"

# A name of a secret has one of these words, and does not say that it only leads to one (secretName, TOKEN_FILE).
_IS_SECRET = re.compile(
    r"passw(?:or)?d(?!less)|passphrase|(?<![a-z])(?:pass|sig)(?![a-z])|(?-i:SSHPASS)|[_-]pwd|secret|token|credential|cookie|signature|"
    r"(?<![a-z])auth(?:orization)?(?![a-z])|(?:api|access|private|account|license|encryption|signing|ssh)[_.-]?key",
    re.IGNORECASE,
)
_LEADS_TO_ONE = re.compile(r"(?:Name|Path|Refs?|[_-](?i:file|path|dir|stdin)|[Ss]econds)$")

_KEY = r"[A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_FORMS = tuple(
    (re.compile(pattern, flags), text)
    for pattern, flags, text in (
        (rf"-----BEGIN {_KEY}.*?(?:-----END {_KEY}|\Z)", re.DOTALL, MARK),
        (rf"\A.{{0,20000}}?-----END {_KEY}", re.DOTALL, MARK),  # its start was cut off
        (r"^[A-Za-z0-9+/]{60,}={0,2}$", re.MULTILINE, MARK),  # both were
        (  # a password may have / and @, as people write it
            r"(\b[a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@:'\"<>]{0,2000}:[^\s'\"<>]{0,2000}|[^\s/@'\"<>]{1,2000})@",
            re.IGNORECASE,
            rf"\1{MARK}@",
        ),
        (r"\b(Authorization|Cookie)(\\?[\"']?: *\\?[\"']?)[^\"'\\\n]+", re.IGNORECASE, rf"\1\2{MARK}"),
        (r"\b(Bearer|Basic) +[\w.~+/=-]{6,}", re.IGNORECASE, rf"\1 {MARK}"),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", 0, MARK),  # JSON web token
        (
            r"\b(?:gh[opsur]_|github_pat_|glpat-|hf_|xox[abeprs]-|sk-|dckr_pat_|npm_|pypi-|nvapi-|AIza)[\w-]{16,}",
            0,
            MARK,
        ),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", 0, MARK),
    )
)
# NAME=, "name": or --name, which a value follows. Possessive: of each word there is one attempt.
_NAME = re.compile(r"(?<![\w.-])([\w.-]++)(\\?[\"']?\]?\s{0,3}:?[=:]\s{0,3}| {1,3}(?![\s-]))")
_VALUE = re.compile(  # one without quotes may have some in it, and the end of one with quotes may be cut off
    r"\\\"(?:[^\"\\]|\\[^\"])*+\\\"|\"(?:[^\"\\]|\\.)*+\"|'[^']*+'|[\"']?[^\s\"']++(?:[\"']\w[^\s\"']*+)*+", re.DOTALL
)
# Options whose name says nothing, by their programs, up to the value. Possessive, and of so many words: linear.
_GAP = r"(?:[ \t]|\\\n)++"
_WORDS = rf"(?:{_GAP}(?:\"[^\"]*+\"|'[^']*+'|[^\s;|&\"'])++){{0,20}}?{_GAP}[\"']?"
_OPTIONS = tuple(
    re.compile(rf"(?<![\w.-]){command}")
    for command in (
        *(
            rf"curl{_WORDS}(?:-[A-Za-z0-9]{{0,9}}?{short}(?:{_GAP})?|--{long}(?:=|{_GAP}))(?=[\"']?[^\s:\"']{{0,200}}:)"
            for short, long in (("u", "user"), ("U", "proxy-user"))
        ),
        rf"(?:docker|podman|nerdctl|buildah|skopeo|oras|registry|auth)(?:{_GAP}[^\s;|&]++){{0,4}}?{_GAP}login{_WORDS}-p(?:{_GAP})?",
        rf"(?:mysql|mariadb)(?:-?(?:dump|admin|import|check|show|sh))?{_WORDS}-p(?=\S)",
        rf"redis-cli{_WORDS}-a{_GAP}",
        rf"sshpass(?:{_GAP}-(?:v|P(?:{_GAP})?\S)\S*+){{0,5}}+{_GAP}[\"']?-p(?:{_GAP})?",  # a later -p is ssh's
    )
)


def is_secret(name: str) -> bool:
    """Return whether a variable, field or option of this name has a secret as its value."""
    return _IS_SECRET.search(name) is not None and _LEADS_TO_ONE.search(name) is None


def text(given: str) -> str:
    """Return a text, of any number of lines, without secrets."""
    for pattern, replacement in _FORMS:
        given = pattern.sub(replacement, given)
    for starts in (_of_names, _of_options):
        parts, end = [], 0
        for start in starts(given):
            if start >= end and (hidden := _VALUE.match(given, start)):
                parts += [given[end:start], MARK]
                end = hidden.end()
        given = "".join([*parts, given[end:]])
    return given


def _of_names(given: str) -> Iterator[int]:
    """Where values start that follow a secret's name."""
    for found in _NAME.finditer(given):
        if (found[2].strip() or found[1].startswith("-")) and is_secret(found[1]):
            yield found.end()


def _of_options(given: str) -> list[int]:
    """Where values start that a program takes for a secret."""
    return sorted(found.end() for option in _OPTIONS for found in option.finditer(given))


def value(given: Any) -> Any:
    """Return a JSON value, as of an object of Kubernetes, without secrets, and without kubectl's copy of it."""
    if isinstance(given, str):
        return text(given)
    if isinstance(given, list):
        return _words(given, [])
    return _mapping(given) if isinstance(given, dict) else given


def _mapping(given: Object) -> Body:
    found: Body = {}
    for key, one in given.items():
        if key == "managedFields":  # long, and says nothing of the job
            continue
        is_variable = key == "value" and is_secret(str(given.get("name") or ""))
        hidden = isinstance(one, str) and (is_variable or is_secret(key) or key == LAST_APPLIED)
        if key == "args" and isinstance(one, list) and isinstance(command := given.get("command"), list):
            found[key] = _words(one, command)
        else:
            found[key] = MARK if hidden else value(one)
    return found


def _words(given: list[Any], before: list[Any]) -> list[Any]:
    """A list: a command line's words, of which the one after --token is its value, or lines, maybe of a key."""
    if any(isinstance(one, str) and "PRIVATE KEY-----" in one for one in given):
        return [MARK]
    found: list[Any] = []
    hidden = False
    words = [*before, *given]
    shown = _shown([one if isinstance(one, str) else "" for one in words])
    for number, one in enumerate(words):
        if number in shown or (hidden and isinstance(one, str)):
            found.append(one[: shown.get(number, 0)] + MARK)
        else:
            found.append(value(one))
        hidden = isinstance(one, str) and one.startswith("-") and "=" not in one and " " not in one and is_secret(one)
    return found[len(before) :]


def _shown(words: list[str]) -> dict[int, int]:
    """How many characters to show of the words of a command line in which a program's option has its secret."""
    quoted = [shlex.quote(one) for one in words]
    begins = [0, *accumulate(len(one) + 1 for one in quoted)]
    found = {}
    for start in _of_options(" ".join(quoted)):
        number = bisect(begins, start) - 1
        length = max(0, start - begins[number] - quoted[number].startswith("'"))
        if length < len(words[number]) and len(words[number][:length].split()) < 2:  # else a script, read on its own
            found[number] = length
    return found
