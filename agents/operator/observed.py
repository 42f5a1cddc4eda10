"""What is known of one job's objects when it is planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    """One job's objects as the caches have them: trimmed (`trim`), and at times older than the truth.

    `pods` are those that carry the job's uid as a label and are controlled by it. `taken` are objects that we want and
    that someone else has made: (kind, name). `refused` are creations that the API server would not take, with its
    words: (kind, name) → message; an entry goes when a later try succeeds or the job is edited.
    """

    resource: Object  # the MPIJob itself, with its status
    pods: tuple[Object, ...] = ()
    launcher_job: Object | None = None  # batch Job, v2beta1
    config_map: Object | None = None
    service: Object | None = None
    service_account: Object | None = None
    secret: Object | None = None  # its metadata alone: the keys are nobody's business here
    role: Object | None = None
    role_binding: Object | None = None
    pod_group: Object | None = None
    taken: frozenset[tuple[str, str]] = frozenset()
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
