"""Whether the cluster knows MPIJobs, and an operator runs them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agents.client.doctor.check import Check, Group, fail, ok, skip, warn
from agents.kube.kinds import MPI_JOB_T9K, Kind

_INSTALL = "Install mpi-agents (docs/install.md), or choose another --context."


def definition(served: Sequence[Kind], wanted: Kind | None) -> Check:
    """Check that MPIJobs are served, and the wanted version among them."""
    name, versions = "definition", ", ".join(kind.api_version for kind in served)
    if not served:
        return fail(Group.CLUSTER, name, "the API server knows no MPIJobs", _INSTALL)
    if wanted is None or wanted in served:
        return ok(Group.CLUSTER, name, f"MPIJobs of {versions}")
    what = f"{wanted.api_version} is not served, but {versions}"
    others = [kind.api_version.rpartition("/")[2] for kind in served if kind is not MPI_JOB_T9K]
    if wanted is MPI_JOB_T9K or not others:
        return fail(Group.CLUSTER, name, what, "Install its definition (docs/install.md).")
    return fail(Group.CLUSTER, name, what, f"`kubectl mpi convert -f FILE --to {others[0]}`, or install mpi-agents.")


def operator(seen: Collection[str] | None, *, has_begun: bool) -> Check:
    """Check that something runs the jobs; `seen`: by which objects, None if the user may not look.

    `has_begun`: an operator has written the job's status.
    """
    name = "operator"
    if seen:
        return ok(Group.CLUSTER, name, f"seen by {', '.join(sorted(seen))}")
    if has_begun:
        return ok(Group.CLUSTER, name, "an operator manages the job")
    if seen is None:
        return skip(Group.CLUSTER, name, "you may not list leases and deployments of all namespaces")
    what = "none seen: no lease or deployment of mpi-agents, mpi-operator or training-operator"
    return warn(
        Group.CLUSTER, name, what, "Is an operator installed and running? `kubectl get pods -A | grep operator`"
    )
