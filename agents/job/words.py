"""What the conditions of a job, and the events that go with them, say in each dialect's words. Pure.

kubeflow's are those of mpi-operator v0.8.2 (v2beta1), of mpi-operator v0.3.0 and where that is silent of
training-operator v1.9.3 (v1); T9k's are those of its MPIJob document, where it has any.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agents.job.model import Dialect


@dataclass(frozen=True, slots=True)
class Told:
    """One condition's words: templates of `name` and `full`, the job's name without and with its namespace."""

    reason: str
    message: str
    event: str = ""  # its reason, if it is not the condition's
    event_message: str = ""  # likewise


@dataclass(frozen=True, slots=True)
class Words:
    """A dialect's words."""

    created: Told
    running: Told
    restarting: Told  # its message has a third part, `why`
    suspended: Told
    not_running: Told  # Running, of a job that is suspended
    resumed: Told
    succeeded: Told
    never_ran: Told  # Running, of a job that has ended
    failure: str  # of the launcher's pod: followed by why
    initialized: Told | None = None  # T9k: what it is created for is there
    reasons: tuple[tuple[str, str], ...] = ()  # of a failure, where they are others than kubeflow's


_V2BETA1 = Words(
    created=Told("MPIJobCreated", "MPIJob {full} is created."),
    running=Told("MPIJobRunning", "MPIJob {full} is running.", event_message="MPIJob {full} is running"),
    restarting=Told("MPIJobRestarting", "MPIJob {name} is restarting because 1 Launcher replica(s) failed: {why}"),
    suspended=Told("MPIJobSuspended", "MPIJob suspended"),
    not_running=Told("MPIJobSuspended", "MPIJob {full} is suspended."),
    resumed=Told("MPIJobResumed", "MPIJob resumed"),
    succeeded=Told("MPIJobSucceeded", "MPIJob {full} successfully completed."),
    never_ran=Told("MPIJobRunning", "MPIJob {full} is finished but Running condition was never set."),
    failure="MPIJob {full} has failed: ",
)
_V1 = replace(
    _V2BETA1,
    suspended=Told("MPIJobSuspended", "MPIJob {name} is suspended."),
    resumed=Told("MPIJobResumed", "MPIJob {name} is resumed."),
)
_T9K = Words(
    created=Told("-", "The job is being initialized.", "Created", "MPIJob {full} is created."),
    initialized=Told("-", "The job has been initialized successfully."),
    running=Told("-", "All pods are running normally.", "Running", "All pods of MPIJob {full} are running."),
    restarting=Told("Restarting", "The launcher is made anew because it failed: {why}"),
    suspended=Told("Paused", "The job is paused: its pods are deleted, or being deleted."),
    not_running=Told("Paused", "The job is paused."),
    resumed=Told("Resumed", "The job is resumed: its pods are made anew."),
    succeeded=Told("-", "The job has completed.", "Completed"),
    never_ran=Told("-", "The job ended without all of its pods having run at one time."),
    failure="The job exited with an error code. ",
    reasons=(("MPIJobFailed", "Failed"), ("MPIJobEvicted", "Evicted")),
)


def words_of(dialect: Dialect) -> Words:
    """Return a dialect's words."""
    return {Dialect.V1: _V1, Dialect.V2BETA1: _V2BETA1, Dialect.T9K: _T9K}[dialect]
