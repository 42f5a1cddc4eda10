"""The rights that commands need, and which of them the user has. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agents.client.doctor.check import Check, Group, fail, ok, warn
from agents.job.json_object import Body
from agents.kube.kinds import EVENT, POD, Kind

REVIEW = Kind("SelfSubjectAccessReview", "authorization.k8s.io/v1", "selfsubjectaccessreviews")


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a kind, or on its subresource."""

    verb: str
    kind: Kind
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.resource}{f'/{self.subresource}' if self.subresource else ''}"

    def review(self, namespace: str) -> Body:
        """Return the question whether the user has it."""
        asked = {"namespace": namespace, "verb": self.verb, "group": self.kind.group, "resource": self.kind.plural}
        asked |= {"subresource": self.subresource} if self.subresource else {}
        kind = {"apiVersion": REVIEW.api_version, "kind": REVIEW.name}
        return {**kind, "spec": {"resourceAttributes": asked}}


def needed(jobs: Kind) -> dict[str, tuple[Right, ...]]:
    """Return which rights which commands need; `jobs` is the kind of the MPIJobs."""
    reading = [Right(verb, jobs) for verb in ("get", "list", "watch")]
    return {
        _READING: (*reading, Right("list", POD), Right("list", EVENT), Right("get", POD, "log")),
        "submit, run, rerun": (Right("create", jobs),),
        "pause, resume, debug": (Right("patch", jobs),),
        "delete": (Right("delete", jobs),),
        "exec, doctor --probe": (Right("get", POD, "exec"), Right("create", POD, "exec")),
    }


_READING = "list, status, why, logs"
_VIEW, _EDIT = "mpi-agents-user-view", "mpi-agents-user-edit"  # the chart's roles


def checks(jobs: Kind, allowed: Collection[Right], namespace: str) -> list[Check]:
    """Return a check for each group of commands, by the rights that the user has. Without reading nothing works."""
    found = []
    for commands, rights in needed(jobs).items():
        missing = [str(one) for one in rights if one not in allowed]
        if not missing:
            found.append(ok(Group.RIGHTS, commands, f"allowed in namespace {namespace}"))
            continue
        what = f"not allowed in namespace {namespace}: {', '.join(missing)}"
        role = _VIEW if commands == _READING else _EDIT
        remedy = f"Ask whoever manages the cluster for the role {role}, or these rights (docs/kubectl-mpi.md)."
        found.append((fail if commands == _READING else warn)(Group.RIGHTS, commands, what, remedy))
    return found
