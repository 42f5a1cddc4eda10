"""A bug in one client's session: that client is let go, whatever of it the loop has called."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from agents.common.loop import Loop
from rshagent.hub.cli import _Boundary

if TYPE_CHECKING:
    from collections.abc import Callable


class Client:
    def __init__(self, loop: Loop) -> None:
        self._loop, self.is_abandoned = loop, False

    def fail(self, _what: object = None) -> None:
        self._loop.stop()
        raise KeyError("secret")

    def abandon(self) -> None:
        self.is_abandoned = True


@pytest.mark.parametrize("called", [lambda one: one.fail, lambda one: partial(one.fail, "again")])
def test_it_is_abandoned(called: Callable[[Client], Callable[[], None]]) -> None:
    loop, log = Loop(), list[str]()
    loop.on_error = _Boundary(log.append)
    client = Client(loop)
    loop.call_later(0, called(client))
    loop.run()
    assert client.is_abandoned
    assert len(log) == 1
    assert "KeyError at test_hub_errors.py" in log[0]
    assert "secret" not in log[0]
