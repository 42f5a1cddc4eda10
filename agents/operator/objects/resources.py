"""What our containers ask for, so that the user's pod keeps the quality of service that it has by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.operator.objects import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.operator.settings import PodSettings

Body = dict[str, Any]

_DISK = "ephemeral-storage"
_DISK_SIZE = "64Mi"  # a client of 1 MiB, a hosts file, and logs


def of_ours(spec: Body, settings: PodSettings, requests: Mapping[str, str], limits: Mapping[str, str]) -> Body:
    """Return the resources of one of our containers in a pod.

    In a Guaranteed pod requests are the limits. Ours limit disk only where all of the user's containers do: the pod may
    use what its containers' limits add up to, and ours alone would be the limit of all. Where the pod has resources of
    its own, containers may not ask for more together.
    """
    if spec.get("resources"):
        return {}
    containers = [one for key in ("initContainers", "containers") for one in spec.get(key, [])]
    if is_guaranteed(containers):
        limits = {"cpu": settings.guaranteed_cpu, **limits}
        requests = limits
    else:
        limits = {"cpu": settings.cpu_limit, **limits}
        requests = {**requests, "cpu": min(requests["cpu"], settings.cpu_limit, key=quantity.parse)}
    if all(_DISK in one.get("resources", {}).get("limits", {}) for one in spec["containers"]):
        limits = {**limits, _DISK: _DISK_SIZE}
        requests = {**requests, _DISK: _DISK_SIZE}
    return {"requests": dict(requests), "limits": dict(limits)}


def is_guaranteed(containers: list[Body]) -> bool:
    """Return whether a pod of these containers has the quality of service class Guaranteed.

    Each has limits of CPU and memory, and requests that equal them or are absent, which stands for the limits.
    """
    return all(_has_its_limits(one.get("resources", {}), name) for one in containers for name in ("cpu", "memory"))


def _has_its_limits(resources: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    limit = resources.get("limits", {}).get(name)
    request = resources.get("requests", {}).get(name, limit)
    try:
        return limit is not None and quantity.parse(limit) == quantity.parse(request) > 0
    except ValueError:  # of a size that nothing has, `1e999`: the API server will refuse the pod
        return False
