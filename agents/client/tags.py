"""Which rank wrote what, by the tags in a launcher's output. Pure.

| tag and text | of |
|---|---|
| `[1,3]<stdout>:text` | Open MPI 4.1 with --tag-output |
| `[1,3]<stdout>: text`, also `[prterun-host-7@1,3]` and `[1,3][host:7]` | Open MPI 5.0 with --output and its forms |
| `[3]<stdout>:text` | horovodrun, always |
| `[3]<output>:text` | MPICH and Intel MPI with the pattern in `agents.job.tags` |
| `[3] text` | MPICH and Intel MPI with -prepend-rank |

As recorded from Open MPI 4.1.8 and 5.0.11, Horovod 0.28.1, MPICH 5.0.2 and Intel MPI 2021.18.1. Open MPI 4.1, MPICH and
Intel MPI put a tag before each piece that they read: also within a line, where a rank wrote it in parts, or another
rank in between.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from agents.client.errors import NotFoundError
from agents.job.model import Implementation

_TAG = re.compile(
    r"\[(?:(?P<job>[^\[\],\s]{1,255}),)?(?P<rank>\d{1,9})\](?:\[[^\[\]\s]{1,255}\])?"
    r"<(?P<stream>stdout|stderr|stddiag|output)>:"
)
_TAG_AND_BLANK = re.compile(f"{_TAG.pattern} ?")
_PLAIN = re.compile(r"\[(?P<rank>\d{1,9})\] ")  # at the start of a line only: elsewhere it may be a program's own text
_PART_MAX = 64 << 10  # characters of a line that is held until its end
_HYDRA = "call `mpiexec -prepend-rank`"
_REMEDIES = {
    Implementation.OPEN_MPI: "set spec.tagOutput: true (Open MPI 4.1), or call `mpirun --tag-output`",
    Implementation.MPICH: f"set spec.tagOutput: true, or {_HYDRA}",
    Implementation.INTEL: _HYDRA,
}


def untagged(text: str) -> str:
    """Return a text without tags, except those of -prepend-rank."""
    return _TAG_AND_BLANK.sub("", text)


def ranks_of(text: str, output: Iterable[str], implementation: Implementation) -> list[int]:
    """Return the ranks whose tag is right before this text, in the order of their first one."""
    found = ((line, tag) for line in output for tag in _tags(line, implementation))
    return [*dict.fromkeys(int(tag["rank"]) for line, tag in found if line.startswith((text, f" {text}"), tag.end()))]


def _tags(line: str, implementation: Implementation) -> list[re.Match[str]]:
    tags = [*_TAG.finditer(line)]
    if not tags and implementation is not Implementation.OPEN_MPI:
        tags = [*filter(None, [_PLAIN.match(line)])]
    return tags


class RankOutput:
    """The lines of one rank in a launcher's output, which is fed line by line."""

    def __init__(self, rank: int, implementation: Implementation) -> None:
        self._rank, self._implementation = rank, implementation
        self._parts: dict[str, str] = {}  # by stream: a line that has no end yet
        self._is_padded = True  # so far a blank follows each tag of Open MPI, as in 5.0
        self.untagged = 0
        """How many lines there were until one had a tag."""
        self.has_tags = False
        """Whether any rank's tag was in them."""

    @property
    def remedy(self) -> str:
        """What to do about output without tags."""
        return f"no line of the output names its rank: {_REMEDIES[self._implementation]}"

    def lines(self, output: Iterable[str]) -> Iterator[str]:
        """Return the rank's lines in all of this output. Raises NotFoundError if none has a tag."""
        for line in output:
            yield from self.feed(line)
        yield from self.end()

    def feed(self, line: str) -> list[str]:
        """Return the rank's lines that end with this one of the launcher's."""
        tags = _tags(line, self._implementation)
        self.has_tags |= bool(tags)
        self.untagged += not self.has_tags
        found = []
        for tag, following in itertools.zip_longest(tags, tags[1:]):
            text = self._text(tag, line[tag.end() : following.start() if following else None])
            if int(tag["rank"]) == self._rank:
                stream = tag.groupdict().get("stream", "")
                text = self._parts.pop(stream, "") + text
                if following is None or len(text) > _PART_MAX:
                    found.append(text)
                else:
                    self._parts[stream] = text
        return found

    def end(self) -> list[str]:
        """Return what has no end of line. Raises NotFoundError if there was output, and no line of it had a tag."""
        if self.untagged and not self.has_tags:
            raise NotFoundError(self.remedy)
        return [*self._parts.values()]

    def _text(self, tag: re.Match[str], text: str) -> str:
        """Return a text without the blank that Open MPI 5.0 puts before it."""
        if not tag.groupdict().get("job"):
            return text
        self._is_padded &= text.startswith(" ")
        return text[1:] if self._is_padded else text
