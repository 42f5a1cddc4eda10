"""A YAML file's manifests."""

from __future__ import annotations

import json
from typing import Any

import yaml

Object = dict[str, Any]


class DocumentError(Exception):
    """A file has no manifests: one line for people."""


def read(path: str) -> list[Object]:
    """Return a file's manifests. Raises DocumentError."""
    try:
        with open(path, encoding="utf-8") as file:
            bodies = [body for body in yaml.safe_load_all(file) if body]
        json.dumps(bodies)
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path} can't be read: {error}") from None
    except yaml.YAMLError as error:
        raise DocumentError(f"{path}: this is no YAML: {' '.join(str(error).split())}") from None
    except (RecursionError, TypeError, ValueError) as error:  # too deep; what contains itself; a date
        raise DocumentError(f"{path}: this is YAML that JSON can't say: {error}") from None
    for body in bodies:
        if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
            raise DocumentError(f"{path}: a manifest is a mapping with apiVersion, kind and metadata, itself one")
    return bodies
