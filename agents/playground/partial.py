"""Objects by their metadata alone, for clients that want no more: the operator, of Secrets. Pure."""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]

API_VERSION = "meta.k8s.io/v1"
KIND = "PartialObjectMetadata"


def wanted(accept: str) -> bool:
    """Whether the client wants metadata alone (`as=PartialObjectMetadata`, of lists with `List` behind it)."""
    return f"as={KIND}" in accept.split(",", maxsplit=1)[0].replace(" ", "")


def encoded(thing: Object) -> bytes:
    """An object's metadata, as JSON."""
    shown = {"kind": KIND, "apiVersion": API_VERSION, "metadata": thing["metadata"]}
    return json.dumps(shown, separators=(",", ":")).encode()
