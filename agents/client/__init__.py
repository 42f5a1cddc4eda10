"""MPI jobs from Python: submit, list, watch, understand and delete them. The command `kubectl mpi` is made of it.

`MpiClient` does the work; what it returns are plain values (`model`), and its errors are `ClientError`s.

The files, from the API inwards:

- connection: configuration, requests, errors (`errors`); objects: which objects belong to a job
- facts, ends, output: a job and its pods as they are read, how its containers ended, what its launcher printed. Pure
- command_line: how many ranks the launcher's asks for, and where they run. Pure. queue: what Kueue says of a job
- diagnosis: why a job is where it is, a table of rules; silence: of one that runs, and may hang. Pure
- summaries, timeline: the values of `model`. Pure
- doctor: checks with remedies; pod_command, pod_logs: a command in a pod, a container's log
- edits: what was edited in a job since it was made. Pure
- manifests, modes: new jobs, patches; convert: a job in another API. Pure
- ranks: the ranks' processes as worker agents see them. Pure. rank_looks: asks the agents. each_pod: many pods at once
- clusters: virtual clusters; prun: how a program is run in one from outside. Pure
- client: `MpiClient`; follow, outage: what it does for long, over lost connections
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
