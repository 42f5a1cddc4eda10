"""The operator with T9k's jobs, whatever comes in between: see `job_operations`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import initialize
from job_operations import SETTINGS, Operations, beginning


class T9k(Operations):
    @initialize(**beginning("t9k", "t9k-3"))
    def begin(self, **chosen: Any) -> None:
        self.begin_with(**chosen)


TestOperations = pytest.mark.timeout(600)(T9k.TestCase)
TestOperations.settings = SETTINGS
