"""Kubernetes' quantities: `500m`, `2Gi`, `1e3` (k8s.io/apimachinery/pkg/api/resource)."""

from __future__ import annotations

import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d{1,2})?", re.ASCII)
_SCALES = {
    **{suffix: Fraction(f"1e{3 * index - 9}") for index, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"))},
    **{f"{letter}i": Fraction(1 << 10 * (index + 1)) for index, letter in enumerate("KMGTPE")},
}
_MILLI = 1000


def parse(text: object) -> Fraction:
    """Return a quantity's value; JSON may have it as a number. Raises ValueError for what is none."""
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{str(text)!a} is no quantity")
    number, suffix = Fraction(match[1].rstrip(".")), match[2] or ""
    return number * (_SCALES[suffix] if suffix in _SCALES else Fraction(f"1{suffix}"))


def render(value: Fraction) -> str:
    """Return a quantity of this value: whole, or in thousandths, rounded up as Kubernetes rounds."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{-(-value.numerator * _MILLI // value.denominator)}m"
