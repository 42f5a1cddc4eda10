"""The operator's own definitions of MPIJobs: what `kubectl explain` shows, and what the API server refuses of a job.

It knows the keywords that the definitions use, except CEL rules and limits of length.
"""

from __future__ import annotations

import functools
import glob
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]

_FOLDER = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "charts", "mpi-agents", "definitions"
)
_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}


@functools.cache
def schemas() -> dict[tuple[str, str, str], Object]:
    """The schemas by group, version and kind; none where there is no checkout."""
    import yaml  # noqa: PLC0415 - few clusters are asked for them

    found = {}
    for path in glob.glob(os.path.join(_FOLDER, "*.yaml")):
        with open(path, encoding="utf-8") as file:
            spec = yaml.safe_load(file)["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            found[spec["group"], version["name"], spec["names"]["kind"]] = schema
    return found


def unknown(schema: Object, value: Any, path: str = "") -> list[str]:
    """The paths of fields that the schema does not have."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    has_fields = isinstance(value, dict) and "additionalProperties" not in schema and path != ".metadata"
    names = [name for name in value if name not in schema.get("properties", {})] if has_fields else []
    found = [f"{path}.{name}".lstrip(".") for name in names]
    return found + [one for part in _parts(schema, value, path) for one in unknown(*part)]


def _parts(schema: Object, value: Any, path: str) -> Iterator[tuple[Object, Any, str]]:
    """The parts of a value that have a schema, each with it and its path."""
    if isinstance(value, dict):
        for name, one in value.items():
            below = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if isinstance(below, dict) and one is not None:
                yield below, one, f"{path}.{name}"
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield schema.get("items", {}), one, f"{path}[{number}]"


def problems(schema: Object, value: Any, path: str = "") -> list[str]:
    """What the schema refuses, in the API server's words."""
    where, shown = path.lstrip("."), json.dumps(value)
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        is_kind = next((name for name, one in _TYPES.items() if isinstance(value, one)), "null")
        is_kind = "boolean" if isinstance(value, bool) else is_kind
        return [f'{where}: Invalid value: "{is_kind}": {where} in body must be of type {kind}: "{is_kind}"']
    found = _limits(schema, value, where, shown)
    if isinstance(value, dict):
        found += [
            f"{path}.{name}: Required value".lstrip(".")
            for name in schema.get("required", ())
            if value.get(name) is None
        ]
    return found + [one for part in _parts(schema, value, path) for one in problems(*part)]


def _limits(schema: Object, value: Any, where: str, shown: str) -> list[str]:
    found = []
    if value not in schema.get("enum", [value]):
        values = ", ".join(f'"{one}"' for one in schema["enum"])
        found.append(f"{where}: Unsupported value: {shown}: supported values: {values}")
    for word, limit in (("minimum", "greater"), ("maximum", "less")):
        is_wrong = word in schema and (value < schema[word] if word == "minimum" else value > schema[word])
        if is_wrong:
            words = f"{where} in body should be {limit} than or equal to {schema[word]}"
            found.append(f"{where}: Invalid value: {shown}: {words}")
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        found.append(f"{where}: Too many: {len(value)}: must have at most {schema['maxItems']} items")
    return found
