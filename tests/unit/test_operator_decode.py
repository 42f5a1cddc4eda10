"""One object that is nested too deeply costs itself alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.operator.decode import DEEPEST, decode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def nested(depth: int, innermost: str = "1") -> str:
    return '{"a":[' * (depth // 2) + innermost + "]}" * (depth // 2)


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, dict | list) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
        depth += 1
    return depth


@given(VALUES)
def test_json_is_what_it_says(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value


@given(VALUES, VALUES)
def test_what_is_beside_the_depths_is_kept(before: Any, after: Any) -> None:
    text = f'{{"before":{json.dumps(before)},"deep":{nested(9000)},"after":{json.dumps(after)}}}'
    found = decode(text.encode())
    assert (found["before"], found["after"]) == (before, after)
    assert depth_of(found["deep"]) == DEEPEST - 1


@pytest.mark.parametrize("text", ['"]}]}{["', r'"\"]}\\"', r'"\\\"{{{"'])
def test_brackets_in_texts_are_none(text: str) -> None:
    found = decode(f"[{text},{nested(5000, text)},{text}]".encode())
    assert found[0] == found[2] == json.loads(text)


def test_several_depths() -> None:
    found = decode(f"[{nested(5000)},1,{nested(6000)},2]".encode())
    assert found[1::2] == [1, 2]


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 5000, b'{"a":' * 5000, b"}", b"\xff"])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)
