"""The operator with kubeflow's jobs, whatever comes in between: see `job_operations`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import initialize
from job_operations import SETTINGS, Operations, beginning


class Kubeflow(Operations):
    @initialize(**beginning("v1", "v2beta1"))
    def begin(self, **chosen: Any) -> None:
        self.begin_with(**chosen)


TestOperations = pytest.mark.timeout(600)(Kubeflow.TestCase)
TestOperations.settings = SETTINGS
