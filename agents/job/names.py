"""Names that pods and labels can have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.job.fields import Fields

_LABEL_SIZE = 63
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def read_name(metadata: Fields, workers: int, *, is_host: bool) -> str:
    """Return a job's name. `is_host`: its workers' names are host names too.

    Digits first and dots are no fault: what must be a DNS label is named otherwise.
    """
    name = metadata.needed("name")
    longest = f"{name}-worker-{max(workers - 1, 0)}"
    if name and not _SUBDOMAIN.fullmatch(name):
        metadata.add("must be lower case letters, digits, '-' and '.', with a letter or digit at each end", "name")
    elif len(name) > _LABEL_SIZE:
        metadata.add(f"must be at most {_LABEL_SIZE} long: it is a label of the pods", "name")
    elif is_host and len(longest) > _LABEL_SIZE:
        excess = len(longest) - _LABEL_SIZE
        metadata.add(f'is {excess} too long: "{longest}" is a host name, of at most {_LABEL_SIZE}', "name")
    return name
