"""Other operators: who is seen, and which jobs are then ours."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.job.model import GROUP
from agents.operator.errors import ApiError, RefusedError, UnavailableError
from agents.operator.neighbours import Adopt, Adoption, Neighbours, found, is_held

Body = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC).timestamp()
OWN = ("ours", "mpi-agents-operator")
INSTALL_YAML = Path(__file__).parents[2] / "install.yaml"


def lease(namespace: str, name: str, renewed: str | None = "2026-01-01T11:59:55.000000Z", **more: Any) -> Body:
    spec = {"holderIdentity": "someone", "leaseDurationSeconds": 15, "renewTime": renewed} | more
    born = "2025-06-01T00:00:00Z"
    return {"metadata": {"namespace": namespace, "name": name, "creationTimestamp": born}, "spec": spec}


def deployment(name: str, replicas: int, ready: int) -> Body:
    return {
        "metadata": {"namespace": "kubeflow", "name": name},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready} if ready else {},
    }


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (lease("a", "b"), True),
        (lease("a", "b", "2026-01-01T11:59:16Z"), True),  # 15 s and what clocks may be apart
        (lease("a", "b", "2026-01-01T11:59:14Z"), False),
        (lease("a", "b", "2026-01-01T11:00:00Z", leaseDurationSeconds=7200), True),
        (lease("a", "b", holderIdentity=""), False),
        (lease("a", "b", None), False),
        (lease("a", "b", "yesterday"), False),
        ({"metadata": {"name": "b"}}, False),
    ],
)
def test_a_lease_is_held_as_long_as_it_is_renewed(given: Body, held: bool) -> None:
    assert is_held(given, NOW) is held


def born(body: Body, when: str) -> Body:
    return body | {"metadata": body["metadata"] | {"creationTimestamp": when}}


@pytest.mark.parametrize(
    ("leases", "deployments", "seen"),
    [
        ([], [], set()),
        ([lease(*OWN)], [], set()),
        ([lease("mpi-operator", "mpi-operator")], [], {"Lease mpi-operator/mpi-operator"}),
        ([lease("mpi-operator", "mpi-operator", "2026-01-01T11:00:00Z")], [], set()),
        ([], [deployment("mpi-operator", 1, 1)], {"Deployment kubeflow/mpi-operator"}),
        ([], [deployment("training-operator", 0, 1)], set()),  # being scaled to none
        ([], [deployment("training-operator", 1, 0)], set()),
        ([lease(*OWN), born(lease("b", OWN[1]), "2025-01-01T00:00:00Z")], [], {"Lease b/mpi-agents-operator"}),
        ([lease(*OWN), born(lease("b", OWN[1]), "2025-12-01T00:00:00Z")], [], set()),  # ours was first
        ([lease(*OWN), lease("b", OWN[1])], [], {"Lease b/mpi-agents-operator"}),  # by name, in the same second
        ([lease(*OWN), lease("z", OWN[1])], [], set()),
    ],
)
def test_who_is_seen(leases: list[Body], deployments: list[Body], seen: set[str]) -> None:
    assert found(leases, deployments, OWN, NOW) == seen


@pytest.mark.parametrize(
    ("words", "has_mpijobs"),
    [
        (["/manager"], True),
        (["/manager", "--enable-scheme=tfjob", "--enable-scheme=pytorchjob"], False),
        (["/manager", "-enable-scheme", "TFJob"], False),
        (["/manager", "--enable-scheme=tfjob", "--enable-scheme=MPIJob"], True),
    ],
)
def test_a_training_operator_that_has_other_kinds_alone_is_none_for_mpijobs(
    words: list[str], has_mpijobs: bool
) -> None:
    """It stays when one moves from it (docs/moving.md), and its lease says nothing of that."""
    its = deployment("training-operator", 1, 1)
    its["spec"]["template"] = {"spec": {"containers": [{"name": "manager", "command": words}]}}
    held = [lease("kubeflow", "1ca428e5.training-operator.kubeflow.org")]
    assert bool(found(held, [its], OWN, NOW)) is has_mpijobs
    elsewhere = lease("other", "1ca428e5.training-operator.kubeflow.org")
    assert found([*held, elsewhere], [its], OWN, NOW) >= {f"Lease other/{elsewhere['metadata']['name']}"}


def test_a_deployment_of_ours_by_kubeflows_name_is_no_other_operator() -> None:
    """fullnameOverride=mpi-operator, for those who look for it by that name."""
    (ours,) = [one for one in yaml.safe_load_all(INSTALL_YAML.read_text()) if one and one["kind"] == "Deployment"]
    called = {"metadata": {"namespace": "ours", "name": "mpi-operator"}, "status": {"readyReplicas": 1}}
    assert found([lease(*OWN)], [ours | called], OWN, NOW) == set()


def job(labels: Body | None = None, managed_by: str | None = None, manager: str = "") -> Body:
    metadata: Body = {"name": "pi", "namespace": "ns", "uid": "u"} | ({"labels": labels} if labels else {})
    if manager:
        metadata["managedFields"] = [{"manager": manager, "subresource": "status"}]
    return {"metadata": metadata, "spec": {"runPolicy": {"managedBy": managed_by}} if managed_by else {}}


PLAIN = job()
LABELLED = job({"mpi-agents/adopt": "true"})
NAMED = job(managed_by="mpi-agents/operator")
BEGUN = job(manager="mpi-agents")
THEIRS = job({"mpi-agents/adopt": "false"}, "kubeflow.org/mpi-operator", "mpi-operator")
T9KS = {**job(), "apiVersion": "batch.tensorstack.dev/v1beta1"}


@pytest.mark.parametrize(
    ("adopt", "seen", "taken"),
    [
        (Adopt.AUTO, [], [PLAIN, LABELLED, NAMED, BEGUN, THEIRS]),
        (Adopt.AUTO, ["Lease x/mpi-operator"], [LABELLED, NAMED, BEGUN]),
        (Adopt.ALL, ["Lease x/mpi-operator"], [PLAIN, LABELLED, NAMED, BEGUN, THEIRS]),
        (Adopt.GIVEN, [], [LABELLED, NAMED, BEGUN]),
    ],
)
def test_which_jobs_are_taken(adopt: Adopt, seen: list[str], taken: list[Body]) -> None:
    adoption = Adoption(adopt, lambda _group: not seen)
    assert [each for each in (PLAIN, LABELLED, NAMED, BEGUN, THEIRS) if adoption.takes(each)] == taken


@pytest.mark.parametrize(
    ("lease_name", "taken"), [("mpi-operator", [LABELLED, NAMED, BEGUN, T9KS]), (OWN[1], [LABELLED, NAMED, BEGUN])]
)
def test_kubeflow_s_operators_are_no_reason_to_leave_t9k_s_jobs(lease_name: str, taken: list[Body]) -> None:
    """A second operator of our own is one."""
    api = Api()
    theirs = born(fresh("theirs", lease_name), "2025-01-01T00:00:00Z")
    api.answers[f"metadata.name={lease_name}"] = [theirs, fresh(*OWN)] if lease_name == OWN[1] else [theirs]
    neighbours = Neighbours(api, *OWN)  # type: ignore[arg-type]
    neighbours.look()
    adoption = Adoption(Adopt.AUTO, neighbours.is_alone)
    assert [each for each in (PLAIN, LABELLED, NAMED, BEGUN, T9KS) if adoption.takes(each)] == taken


@pytest.mark.parametrize("spec", [None, [], "x", {"runPolicy": 3}])
def test_a_job_of_any_form_can_be_asked_for(spec: Any) -> None:
    assert not Adoption(Adopt.GIVEN, lambda _group: True).takes({"metadata": {"name": "x"}, "spec": spec})


class Api:
    def __init__(self) -> None:
        self.answers: dict[str, list[Body] | ApiError] = {}
        self.asked: list[str] = []

    def list(self, path: str, *, fieldSelector: str) -> Body:  # noqa: N803
        self.asked.append(f"{path} {fieldSelector}")
        answer = self.answers.get(fieldSelector, [])
        if isinstance(answer, ApiError):
            raise answer
        return {"items": answer}


def fresh(namespace: str, name: str) -> Body:
    return lease(namespace, name, datetime.now(UTC).isoformat())


def test_coming_and_going_is_told(caplog: pytest.LogCaptureFixture) -> None:
    api, told = Api(), list[frozenset[str]]()
    one = Neighbours(api, *OWN)  # type: ignore[arg-type]
    one.on_change = lambda: told.append(one.seen())
    with caplog.at_level("INFO"):
        one.look()
        api.answers["metadata.name=mpi-operator"] = [fresh("mpi-operator", "mpi-operator")]
        one.look()
        one.look()
        api.answers.clear()
        one.look()
    assert told == [frozenset(), {"Lease mpi-operator/mpi-operator"}, frozenset()]
    words = [each.getMessage() for each in caplog.records]
    assert "another operator for MPIJobs is here: Lease mpi-operator/mpi-operator." in words[0]
    assert "label mpi-agents/adopt=true or runPolicy.managedBy mpi-agents/operator" in words[0]
    assert words[-1] == "another operator for MPIJobs is gone: Lease mpi-operator/mpi-operator"


def test_what_may_not_be_listed_is_asked_for_once() -> None:
    api = Api()
    for name in ("mpi-operator", "training-operator"):
        api.answers[f"metadata.name={name}"] = RefusedError("no", 403)
    one = Neighbours(api, *OWN)  # type: ignore[arg-type]
    one.look()
    asked = len(api.asked)
    one.look()
    assert one.is_alone(GROUP)
    assert one.seen() == frozenset()
    assert not [each for each in api.asked[asked:] if "deployments" in each]


def test_what_is_not_known_now_was_not_seen_to_go() -> None:
    """An API server that does not answer is no reason to take others' jobs."""
    api = Api()
    api.answers["metadata.name=mpi-operator"] = [fresh("mpi-operator", "mpi-operator")]
    one = Neighbours(api, *OWN)  # type: ignore[arg-type]
    one.look()
    api.answers["metadata.name=mpi-operator"] = UnavailableError("no answer")
    one.look()
    assert not one.is_alone(GROUP)
    assert "Lease mpi-operator/mpi-operator" in one.seen()


def test_nobody_is_alone_before_it_could_look() -> None:
    api = Api()
    api.answers["metadata.name=mpi-operator"] = UnavailableError("no answer")
    one = Neighbours(api, *OWN)  # type: ignore[arg-type]
    one.look()
    assert not one.is_alone(GROUP)
    api.answers.clear()
    one.look()
    assert one.is_alone(GROUP)
