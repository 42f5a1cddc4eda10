"""Kubernetes' quantities of resources, as 500m or 2Gi. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

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


def asked_for(template: Mapping[str, Any], kinds: Sequence[str] = ("limits", "requests")) -> dict[str, Fraction]:
    """Return what the containers of a pod's template ask for together: requests, and limits where there is none.

    `kinds`: where to look, the last one first.
    A quantity of a size that nothing has, `1e999`, is left out: the API server will refuse the pod.
    """
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for container in template.get("spec", {}).get("containers", []):
        asked = {name: text for kind in kinds for name, text in container.get("resources", {}).get(kind, {}).items()}
        for name, text in asked.items():
            try:
                total[name] += parse_quantity(text)
            except ValueError:
                continue
    return total
