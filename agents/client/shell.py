"""The simple commands of a shell script, with their places, so that they can be rewritten. Pure.

Known are quotes, comments, continued lines, here-documents, redirections, lists, pipes, groups, reserved words, and
substitutions of one level.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t\r]|\\\n)+)
    |(?P<newline>\n)
    |(?P<comment>\#[^\n]*)
    |(?P<redirect>\d*(?:<<<|<<-?|<>|<&|<|>>|>&|>\||>)|&>>?)
    |(?P<operator>&&|\|\||;;|[;&|()])
    |(?P<word>(?:\$\(\([^()\n]*\)\)|\$\([^()\n]*\)|\$\{[^{}\n]*\}|`[^`\n]*`|\\.|'[^']*'|"(?:[^"\\]|\\.)*"|[^\s;&|()<>'"\\])+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_SUBSTITUTION = re.compile(r"(?P<quoted>\\.|'[^']*')|\$\((?P<inner>[^()\n]+)\)|`(?P<old>[^`\n]+)`", re.DOTALL)
_RESERVED = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "nohup", "command"}
)
_WRAPPERS = frozenset({"env", "nice", "stdbuf", "timeout"})  # take options, then a command
_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_OF_WRAPPER = re.compile(r"-.*|\d+[smhd]?")


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its place in the script; `text` is without quotes."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Command:
    """A simple command: its words start with the program, and exclude redirections."""

    line: int
    words: list[Word] = field(default_factory=list)
    is_background: bool = False

    @property
    def program(self) -> str:
        """The program's name without its folder."""
        return self.words[0].text.rpartition("/")[2]


def commands(script: str, start: int = 0, end: int | None = None, line: int = 1) -> Iterator[Command]:
    """Give the simple commands of a part of the script, which starts at a line, and those of substitutions in them."""
    scan, end = _Scan(line, Command(line)), len(script) if end is None else end
    while token := _TOKEN.match(script, start, end):
        if token.lastgroup == "word" and not scan.redirection:
            for inner in _SUBSTITUTION.finditer(script, *token.span()):
                if (group := inner.lastgroup) and group != "quoted":
                    yield from commands(script, *inner.span(group), scan.line)
        yield from scan.take(token)
        start = max(token.end(), scan.resumes_at)
    yield from _simple(scan.command)


@dataclass(slots=True)
class _Scan:
    """The state of a scan: the current command, and what the next word or line means."""

    line: int
    command: Command
    redirection: str = ""  # the next word is what it goes to
    ends: list[str] = field(default_factory=list)  # of here-documents that start at the next line
    resumes_at: int = 0  # after the last here-document

    def take(self, token: re.Match[str]) -> Iterator[Command]:
        """Take a token, and give the command that has ended with it."""
        kind, text = token.lastgroup, token[0]
        if kind == "word" and self.redirection:
            if self.redirection in ("<<", "<<-"):
                self.ends.append(_unquoted(text))
            self.redirection = ""
        elif kind == "word":
            if not self.command.words:
                self.command.line = self.line
            self.command.words.append(Word(_unquoted(text), *token.span()))
        elif kind == "redirect":
            self.redirection = text.lstrip("0123456789")
        elif kind in ("operator", "newline"):
            self.command.is_background = text == "&"
            yield from _simple(self.command)
            self.command, self.redirection = Command(self.line), ""
        self.line += text.count("\n")
        if kind == "newline" and self.ends:
            self.resumes_at = _behind(token.string, token.end(), self.ends)
            self.line += token.string.count("\n", token.end(), self.resumes_at)
            self.ends = []


def replaced(script: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """Return the script with texts in the place of others, given by start and end."""
    pieces, done = list[str](), 0
    for start, end, text in sorted(edits):
        pieces += [script[done:start], text]
        done = end
    return "".join([*pieces, script[done:]])


def _simple(command: Command) -> Iterator[Command]:
    """Give the command without what stands before its program."""
    words = command.words
    is_wrapped = False
    while words and (
        words[0].text in _RESERVED | _WRAPPERS
        or _ASSIGNMENT.fullmatch(words[0].text)
        or (is_wrapped and _OF_WRAPPER.fullmatch(words[0].text))
    ):
        is_wrapped = is_wrapped or words[0].text in _WRAPPERS
        words = words[1:]
    if words:
        yield Command(command.line, words, command.is_background)


def _behind(script: str, start: int, ends: Sequence[str]) -> int:
    """Return the end of the here-documents that start at a line."""
    for end in ends:
        while start < len(script):
            stop = script.find("\n", start)
            stop = len(script) if stop < 0 else stop
            line, start = script[start:stop], stop + 1
            if line.lstrip("\t") == end:
                break
    return min(start, len(script))


def _unquoted(text: str) -> str:
    """Return a word without its quotes, as it is if they don't end."""
    if not re.search(r"['\"\\]", text):
        return text
    try:
        return "".join(shlex.split(text.replace("\\\n", "")))
    except ValueError:
        return text
