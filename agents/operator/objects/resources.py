"""Resources of injected containers: they keep the quality of service class of the user's pod."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agents.job.json_object import Body, Object
    from agents.operator.settings import PodSettings

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d{1,2})?", re.ASCII)
_SCALES = {
    **{suffix: Fraction(f"1e{3 * index - 9}") for index, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"))},
    **{f"{letter}i": Fraction(1 << 10 * (index + 1)) for index, letter in enumerate("KMGTPE")},
}
_MILLI = 1000


def parse_quantity(text: object) -> Fraction:
    """Return a quantity's value; JSON may have it as a number. Raises ValueError for what is none."""
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{str(text)!a} is no quantity")
    number, suffix = Fraction(match[1].rstrip(".")), match[2] or ""
    return number * (_SCALES[suffix] if suffix in _SCALES else Fraction(f"1{suffix}"))


def format_quantity(value: Fraction) -> str:
    """Return a quantity of this value: whole, or in thousandths, rounded up as Kubernetes rounds."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{-(-value.numerator * _MILLI // value.denominator)}m"


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
        requests = {**requests, "cpu": min(requests["cpu"], settings.cpu_limit, key=parse_quantity)}
    if all(_DISK in one.get("resources", {}).get("limits", {}) for one in spec["containers"]):
        limits = {**limits, _DISK: _DISK_SIZE}
        requests = {**requests, _DISK: _DISK_SIZE}
    return {"requests": dict(requests), "limits": dict(limits)}


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
