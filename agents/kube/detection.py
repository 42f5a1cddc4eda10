"""Operators for MPIJobs, by the leases and Deployments that there are. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from agents.job.json_object import Body, mappings, part
from agents.job.status import seconds

OWN_LEASE = "mpi-agents-operator"  # by default
_TRAINING_LEASE = "1ca428e5.training-operator.kubeflow.org"
LEASES = ("mpi-operator", _TRAINING_LEASE)  # kubeflow's two
DEPLOYMENTS = ("mpi-operator", "training-operator")  # also those that elect by Endpoints, or not at all
_CLOCKS_S = 30  # how far the clocks of two nodes may be apart, either way


def find_operators(
    leases: Iterable[Body], deployments: Iterable[Body], own: tuple[str, str], now: float
) -> frozenset[str]:
    """Return the other operators that are at work; `own`: our lease's namespace and name, which does not count."""
    leases, deployments = list(leases), list(deployments)
    without = {place(each)[0] for each in deployments if not _has_mpijobs(each)}
    ours = next((_born(lease) for lease in leases if place(lease) == own), "")
    seen = set()
    for lease in leases:
        namespace, name = place(lease)
        if name == _TRAINING_LEASE and namespace in without:
            continue
        is_later = name == own[1] and (not ours or (_born(lease), namespace) > (ours, own[0]))
        if (namespace, name) != own and is_held(lease, now) and not is_later:
            seen.add(f"Lease {namespace}/{name}")
    for each in deployments:
        is_up = part(each, "spec").get("replicas", 1) and part(each, "status").get("readyReplicas")
        # One of our chart's is seen by its lease, whatever its release calls it.
        runs_ours = any(word.startswith("--lease-name=") for word in _words(each))
        if is_up and _has_mpijobs(each) and not runs_ours:
            seen.add("Deployment {}/{}".format(*place(each)))
    return frozenset(seen)


def is_held(lease: Body, now: float) -> bool:
    """Whether a lease has a holder that renewed it in time, and not in the future, except by clock skew."""
    spec = part(lease, "spec")
    renewed = seconds(spec.get("renewTime"))
    if not spec.get("holderIdentity") or renewed is None:
        return False
    return -_CLOCKS_S <= now - renewed < float(spec.get("leaseDurationSeconds") or 15) + _CLOCKS_S


def _has_mpijobs(deployment: Body) -> bool:
    """Whether it manages MPIJobs: a training-operator may be limited to certain kinds."""
    words, kinds = _words(deployment), set()
    for word, after in pairwise([*words, ""]):
        name, is_one_word, kind = word.partition("=")
        if name in ("--enable-scheme", "-enable-scheme"):
            kinds.add((kind if is_one_word else after).lower())
    return not kinds or "mpijob" in kinds


def _words(deployment: Body) -> list[str]:
    containers = mappings(part(deployment, "spec", "template", "spec").get("containers"))
    return [str(word) for one in containers for key in ("command", "args") for word in one.get(key) or ()]


def place(body: Body) -> tuple[str, str]:
    """Return an object's namespace and name."""
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _born(body: Body) -> str:
    return str(body["metadata"].get("creationTimestamp", ""))
