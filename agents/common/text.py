"""Text from outside as one printable line: it can neither forge another line nor control a terminal. Pure."""

from __future__ import annotations

import re

_MESSAGE_MAX = 400
_SHOWN_MAX = 200
LINE_MAX = 1024  # bytes
_OUTPUT_MAX = 16384  # characters; the kubelet keeps at most 12 KiB of a pod's
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # and whatever else a terminal takes for a command


def one_line(text: bytes | str) -> str:
    """Return a server's message as one printable line of bounded length, without the command."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    line = printable(_without_command(text))
    return line if len(line) <= _MESSAGE_MAX else line[: _MESSAGE_MAX - 1] + "…"


def printable(text: str, most: int = LINE_MAX) -> str:
    """Return a text from outside as one printable line of at most `most` bytes: it can't forge another line."""
    if len(text) <= most and text.isascii() and text.isprintable() and "  " not in text:  # most are
        return text.strip()
    cut = text[: 4 * most]  # first, as what follows takes several times the memory
    line = " ".join(cut.split())
    if not line.isprintable():
        line = "".join([char if char.isprintable() else "?" for char in line])
    data = line.encode()
    if len(cut) == len(text) and len(data) <= most:
        return line
    return data[: most - 3].decode("utf-8", "ignore") + "…"


def sentence(text: str) -> str:
    """Return a text that ends as a sentence does."""
    return text if text.endswith((".", "…", "?", "!")) else f"{text}."


def last_lines(output: str, most: int) -> str:
    """Return the end of a container's output as one printable line of at most `most` bytes: lines parted by ` | `.

    Why a program ended is in its last lines. Lines without a letter or digit are left out, as mpirun's rulers.
    """
    whole = _without_command(output[-_OUTPUT_MAX:])  # first: a command can have lines, and a cut would hide its begin
    cut = whole[-4 * most :]
    found = (printable(_COLOUR.sub("", line), 16 * most) for line in cut.splitlines())
    data = " | ".join(line for line in found if any(map(str.isalnum, line))).encode()
    if not data or (len(cut) == len(whole) and len(data) <= most):
        return data.decode()
    return "…" + data[3 - most :].decode("utf-8", "ignore")


def _without_command(message: str) -> str:
    """Remove the command from a server's message: it may hold secrets (Horovod's holds the job's key).

    Kubelet and runtimes list it ("error executing command [/bin/sh -c …]"), and an API server that can't reach the
    kubelet quotes its request (error sending request: Post "https://…/exec/…?command=…": EOF).
    """
    start, end = message.find("[/bin/sh"), message.rfind("]")
    if start >= 0:
        message = message[:start] + "[…]" + (message[end + 1 :] if end > start else "")
    while (start := message.find("command=")) >= 0:
        end = next((at for at in range(start, len(message)) if message[at] in '" '), len(message))
        message = message[:start] + "…" + message[end:]
    return message


def shown(word: bytes | str) -> str:
    """Return a word quoted, in ASCII and cut to 200 characters, for one line of a message."""
    begin = word[:_SHOWN_MAX]
    text = begin if isinstance(begin, str) else begin.decode("utf-8", "surrogateescape")
    return ascii(text) + ("…" if len(word) > _SHOWN_MAX else "")
