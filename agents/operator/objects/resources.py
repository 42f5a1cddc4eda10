"""Resources of injected containers: they keep the quality of service class of the user's pod."""

from __future__ import annotations

from collections.abc import Mapping

from agents.common.quantity import parse_quantity
from agents.job.json_object import Body, Object
from agents.operator.objects import names
from agents.operator.settings import PodSettings

_DISK = "ephemeral-storage"
_DISK_SIZE = "64Mi"  # a client of 1 MiB, a hosts file, and logs


_GUARANTEED_CPU = "200m"
_NEEDS = {  # CPU and memory requests and the memory limit, by container
    names.HUB: ("50m", "48Mi", "64Mi"),
    names.DELIVERY: ("50m", "48Mi", "48Mi"),
    names.WORKER_AGENT: ("10m", "32Mi", "48Mi"),
    names.APPLICATION: ("50m", "32Mi", "48Mi"),
    names.BOOTSTRAP: ("50m", "32Mi", "48Mi"),
}


def of_injected(name: str, spec: Body, settings: PodSettings) -> Body:
    """Return the resources of an injected container in a pod.

    In a Guaranteed pod requests are the limits. Disk is limited only where all of the user's containers limit it: the
    pod may use what its containers' limits add up to, and ours alone would be the limit of all. Where the pod has
    resources of its own, containers may not ask for more together.
    """
    if spec.get("resources"):
        return {}
    cpu, memory, most = _NEEDS[name]
    limits = {"cpu": settings.cpu_limit, "memory": most}
    requests = {"cpu": min(cpu, settings.cpu_limit, key=parse_quantity), "memory": memory}
    if is_guaranteed([one for key in ("initContainers", "containers") for one in spec.get(key, [])]):
        limits = requests = {"cpu": _GUARANTEED_CPU, "memory": most}
    disk = all(_DISK in one.get("resources", {}).get("limits", {}) for one in spec["containers"])
    size = {_DISK: _DISK_SIZE} if disk else {}
    return {"requests": requests | size, "limits": limits | size}


def is_guaranteed(containers: list[Body]) -> bool:
    """Return whether a pod of these containers has the quality of service class Guaranteed.

    Each has limits of CPU and memory, and requests that equal them or are absent, which stands for the limits.
    """
    return all(_has_its_limits(one.get("resources", {}), name) for one in containers for name in ("cpu", "memory"))


def _has_its_limits(resources: Mapping[str, Object], name: str) -> bool:
    limit = resources.get("limits", {}).get(name)
    request = resources.get("requests", {}).get(name, limit)
    try:
        return limit is not None and parse_quantity(limit) == parse_quantity(request) > 0
    except ValueError:  # of a size that nothing has, `1e999`: the API server will refuse the pod
        return False
