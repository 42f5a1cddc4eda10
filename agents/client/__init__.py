"""MPI jobs from Python: submit, list, watch, understand and delete them. The command `kubectl mpi` is made of it.

`MpiClient` does the work; what it returns are plain values (`model`), and its errors are `ClientError`s. What each file
is for: docs/architecture.md.
"""

from agents.client.client import MpiClient
from agents.client.errors import (
    AccessError,
    ClientError,
    ForbiddenError,
    ManifestError,
    NotFoundError,
    RefusedError,
    WaitTimeoutError,
)
from agents.client.model import Explanation, JobEvent, JobStatus, JobSummary, PodSummary, State, Step

__all__ = [
    "AccessError",
    "ClientError",
    "Explanation",
    "ForbiddenError",
    "JobEvent",
    "JobStatus",
    "JobSummary",
    "ManifestError",
    "MpiClient",
    "NotFoundError",
    "PodSummary",
    "RefusedError",
    "State",
    "Step",
    "WaitTimeoutError",
]
