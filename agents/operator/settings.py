"""What the operator is told once, for all jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What goes into the objects of every job. An empty text: not set."""

    image: str  # of hub and delivery
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    cluster_domain: str = ""  # "" names hosts as NAME.SERVICE.NAMESPACE.svc
    gang_scheduler: str = ""  # "", "volcano", or the name of a scheduler with scheduler-plugins' coscheduling
    hub_requests: Mapping[str, str] = field(default_factory=lambda: {"cpu": "50m", "memory": "48Mi"})
    hub_limits: Mapping[str, str] = field(default_factory=lambda: {"memory": "64Mi"})
    delivery_requests: Mapping[str, str] = field(default_factory=lambda: {"cpu": "50m", "memory": "48Mi"})
    delivery_limits: Mapping[str, str] = field(default_factory=lambda: {"memory": "48Mi"})
    wait_timeout: str = ""  # MPI_AGENT_WAIT_TIMEOUT of delivery
