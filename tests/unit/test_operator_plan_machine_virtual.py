"""The operator with virtual clusters, whatever comes in between: see `job_operations`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis.stateful import initialize
from job_operations import SETTINGS, Operations, beginning


class Virtual(Operations):
    @initialize(**beginning("virtual"))
    def begin(self, **chosen: Any) -> None:
        self.begin_with(**{**chosen, "choices": replace(chosen["choices"], has_resume_specs=False)})


TestOperations = pytest.mark.timeout(600)(Virtual.TestCase)
TestOperations.settings = SETTINGS
