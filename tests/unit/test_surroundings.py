"""Which instances of a launcher live equally long: those with one PID 1, where it is the container's own."""

from __future__ import annotations

import pytest

from rshagent.call import surroundings

LIVES = {
    "the container's": ({}, "123-4026", "", "123-"),
    "another container's, asked by the hub's": ({}, "123-4026", "77", "123-"),
    "the pod's or the node's": ({}, "123-4026", "123", ""),
    "not to be read": ({}, "0-4026", "", ""),
    "given by the user": ({"MPI_AGENT_INSTANCE": "123-4026"}, "123-4026", "", ""),
    "no number": ({}, "a1-4026", "", ""),
    "no instance of ours": ({}, "123", "", ""),
    "nothing": ({}, "", "", ""),
}


@pytest.mark.parametrize(("environ", "instance", "shared", "expected"), LIVES.values(), ids=LIVES)
def test_how_the_instances_begin_that_live_as_long(
    environ: dict[str, str], instance: str, shared: str, expected: str
) -> None:
    assert surroundings.life(environ, instance, shared) == expected


def test_the_start_of_the_first_process() -> None:
    first = surroundings.first_process()
    assert first.isdecimal()
    assert surroundings.shared_first_process() in ("", first)
