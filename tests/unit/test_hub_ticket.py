"""Tickets, by which a hub finds the sessions of the one before it. They come back from the user's container."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_exec import lone_engine, unheard_session

from rshagent.call.bootstrap import Mark
from rshagent.hub import resume_token
from rshagent.native.protocol import TICKET_MAX
from rshagent.session.target import Options

BAD = (ValueError, TypeError, RecursionError)
PARTS = ["training", "worker-0", "main", "launcher", "123-456", "0011aabb", 7, False]


@pytest.mark.parametrize("container", ["main", None])
@pytest.mark.parametrize("pid", [7, None])
@pytest.mark.parametrize("has_output", [False, True])
@pytest.mark.parametrize("caller", ["", "4711-815"])
def test_what_a_hub_writes_another_reads(container: str | None, pid: int | None, has_output: bool, caller: str) -> None:
    mark = Mark("launcher", "worker-" + "0" * 240, "123-456", "0011aabb")
    options = Options(has_output=has_output, caller=caller)
    session = unheard_session(lone_engine(), mark, container, options)
    session.facts.pid = pid
    ticket = resume_token.write(session)
    session.stdio.close()
    assert len(ticket) <= TICKET_MAX
    found, same, number, known = resume_token.read(ticket)
    assert (found.namespace, found.pod, found.container) == ("training", mark.pod, container)
    assert str(same) == str(mark)
    assert (number, known) == (pid, options)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        PARTS[:-1],
        [*PARTS, "more"],
        [None, *PARTS[1:]],
        [*PARTS[:2], 5, *PARTS[3:]],
        [*PARTS[:6], "7", False],
        [*PARTS[:6], True, False],
        [*PARTS[:6], 7.5, False],
        [*PARTS[:-1], 0],
        [*PARTS[:-1], None],
        ["training", "worker;rm -rf", *PARTS[2:]],
        ["training", "worker-0", "main", "$(id)", *PARTS[4:]],
        [*PARTS[:4], "", *PARTS[5:]],
        [*PARTS[:5], "a\nb", 7, False],
        dict.fromkeys("abcdefgh"),
        "abcdefgh",
        7,
        None,
    ],
)
def test_a_ticket_with_anything_wrong_is_refused(parts: object) -> None:
    with pytest.raises(BAD):
        resume_token.read(json.dumps(parts).encode())


@pytest.mark.parametrize("ticket", [b"", b"\xff\xfe", b"[" * TICKET_MAX, b"[" + b"9" * TICKET_MAX + b"]", b'["a'])
def test_what_is_no_ticket_is_refused(ticket: bytes) -> None:
    with pytest.raises(BAD):
        resume_token.read(ticket)


ANY: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


@given(
    st.binary(max_size=100)
    | st.lists(ANY | st.lists(ANY, max_size=2), min_size=7, max_size=9).map(lambda parts: json.dumps(parts).encode())
)
def test_any_bytes_are_a_ticket_or_refused(ticket: bytes) -> None:
    try:
        target, mark, pid, options = resume_token.read(ticket)
    except BAD:
        return
    assert isinstance(target.namespace, str)
    assert isinstance(pid, int | None)
    assert isinstance(options.has_output, bool)
    assert str(mark).count(":") == 4, "its parts are safe as shell text"
