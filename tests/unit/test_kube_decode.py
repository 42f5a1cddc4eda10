"""One object that is nested too deeply costs itself alone, and a list is decoded object by object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.kube.decode import DEEPEST, decode, decode_list

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = st.text().filter(lambda name: not name.startswith((".", "f:", "k:", "v:")))  # those are managedFields' names
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
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


@settings(max_examples=20)
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


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 5000, b'{"a":' * 5000, b"}", b"\xff"])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


def parts(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@settings(max_examples=50)
@given(st.dictionaries(st.text(), VALUES, max_size=3), st.lists(VALUES, max_size=5), st.integers(1, 50))
@example({"n": 10**20}, [10**20, "ä€", []], 1)
def test_a_list_is_what_it_says_whatever_pieces_it_comes_in(more: dict[str, Any], items: list[Any], size: int) -> None:
    whole = {"kind": "List", "items": items, **{f"x{name}": value for name, value in more.items()}}
    for text in (json.dumps(whole), json.dumps(whole, indent=1, ensure_ascii=False)):
        data = text.encode("utf-8", "replace")
        expected = decode(data)
        expected["items"] = [["kept", each] for each in expected["items"]]
        with patch("agents.kube.decode.LEAST", 1):  # else all is there before it is looked at
            assert decode_list(parts(data, size), lambda value: ["kept", value]) == expected


@pytest.mark.parametrize("size", [1000, 65536])
def test_of_a_list_one_object_at_a_time_is_held(size: int) -> None:
    data = json.dumps({"items": [{"name": name, "x": "x" * 100_000} for name in range(30)]}).encode()
    came = 0
    seen: list[tuple[int, int]] = []

    def coming() -> Iterator[bytes]:
        nonlocal came
        for chunk in parts(data, size):
            came += len(chunk)
            yield chunk

    decode_list(coming(), lambda value: seen.append((value["name"], came)))
    assert [name for name, _ in seen] == list(range(30))
    assert all(came <= (name + 1) * 100_000 + 300_000 for name, came in seen)


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_one_object_of_a_list_that_is_nested_too_deeply(size: int) -> None:
    text = f'{{"items":[{{"name":"a"}},{{"name":"b","spec":{nested(9000)}}},{{"name":"c"}}],"metadata":{{}}}}'
    found = decode_list(parts(text.encode(), size), lambda value: value["name"])
    assert found == {"items": ["a", "b", "c"], "metadata": {}}


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"items":[1', b'{"items":[1,]}', b'{"items":[1 2]}', b"{} {}", b'{"a" 1}', b"\xff"]
)
def test_what_is_no_list(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_list([data], lambda value: value)


@pytest.mark.parametrize("text", ['{"kind":"Status","items":null}', "[1]", "12", "{}"])
def test_an_answer_without_items(text: str) -> None:
    assert decode_list(parts(text.encode(), 1), lambda _value: None) == json.loads(text)


def test_who_has_written_which_field_is_left_out_of_what_is_long() -> None:
    """Of a pod with 20,000 variables that is twice what the pod itself says."""
    entry: dict[str, Any] = {
        f'k:{{"name":"V{number}"}}': {".": {}, "f:name": {}, "f:value": {}} for number in range(3000)
    }
    fields = {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:env": {".": {}, **entry}}}}}
    managed = [{"manager": "mpi-agents", "fieldsV1": fields, "operation": "Update"}]
    volumes = [{"emptyDir": {}}, {"csi": {"volumeAttributes": {"f:a": "b"}}}]
    spec = {"containers": [{"name": "c", "env": [{"name": "A"}]}], "volumes": volumes}
    pod = {"metadata": {"name": "a", "managedFields": managed}, "spec": spec}
    kept = [{"manager": "mpi-agents", "fieldsV1": None, "operation": "Update"}]
    data = json.dumps(pod).encode()
    for found in (decode(data), decode_list([b'{"items":[%s]}' % data], lambda value: value)["items"][0]):
        assert found == {"metadata": {"name": "a", "managedFields": kept}, "spec": spec}
