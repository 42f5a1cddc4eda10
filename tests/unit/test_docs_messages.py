"""docs/troubleshooting.md quotes messages as the code has them."""

from __future__ import annotations

import ast
import glob
import os
import re

import pytest
from test_docs import content
from test_docs_tables import quoted, rows, section

from images.catalog import ROOT

PAGE = "docs/troubleshooting.md"
SECTIONS = (
    "## Job conditions and events",
    "## Workers that are not ready",
    "## Delivery",
    "## rshagent",
    "## ssh",
    "## The operator's log",
)


def strings() -> str:
    """All texts in the product's code, one a line; what a C compiler would join is joined."""
    found = [content(os.path.relpath(path, ROOT)) for path in glob.glob(f"{ROOT}/charts/mpi-agents/templates/*")]
    for package in ("agents", "delivery", "rshagent", "sshd_bootstrap"):
        for path in glob.glob(f"{ROOT}/{package}/**/*.[pc]*", recursive=True):
            text = content(os.path.relpath(path, ROOT)) if path.endswith((".py", ".c")) else ""
            if path.endswith(".py"):
                parts = [one.value for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant)]
                text = "\n".join(one for one in parts if isinstance(one, str))
            found.append(re.sub(r'"\s*"', "", text))
    return "\n".join(found)


@pytest.fixture(scope="module")
def code() -> str:
    return strings().lower()


@pytest.mark.parametrize("title", SECTIONS)
def test_messages_are_the_codes(title: str, code: str) -> None:
    messages = [message for row in rows(section(PAGE, title))[1:] for message in quoted(row[0])]
    pieces = [piece.strip() for message in messages for piece in message.split("…") if piece.strip()]
    assert pieces
    assert [piece for piece in pieces if piece.lower() not in code] == []
