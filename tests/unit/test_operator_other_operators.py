"""Other operators: who is seen, and which jobs are then ours."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agents.job.model import GROUP
from agents.kube.detection import find_operators, is_held
from agents.kube.errors import ApiError, RejectedError, UnavailableError
from agents.operator.other_operators import NAMESPACES, Claim, OtherOperators, claims
from tests import yamls

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
        (lease("a", "b", "2026-01-01T12:00:30Z"), True),  # by a clock that is ahead
        (lease("a", "b", "2026-01-01T12:00:31Z"), False),
        (lease("a", "b", "2099-01-01T00:00:00.000000Z"), False),
        (lease("a", "b", "9999-12-31T23:59:59Z", leaseDurationSeconds=2**31 - 1), False),
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
    assert find_operators(leases, deployments, OWN, NOW) == seen


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
    assert bool(find_operators(held, [its], OWN, NOW)) is has_mpijobs
    elsewhere = lease("other", "1ca428e5.training-operator.kubeflow.org")
    assert find_operators([*held, elsewhere], [its], OWN, NOW) >= {f"Lease other/{elsewhere['metadata']['name']}"}


def test_a_deployment_of_ours_by_kubeflows_name_is_no_other_operator() -> None:
    """fullnameOverride=mpi-operator, for those who look for it by that name."""
    (ours,) = [one for one in yamls.load_all(INSTALL_YAML.read_text()) if one and one["kind"] == "Deployment"]
    called = {"metadata": {"namespace": "ours", "name": "mpi-operator"}, "status": {"readyReplicas": 1}}
    assert find_operators([lease(*OWN)], [ours | called], OWN, NOW) == set()


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
    ("claim", "seen", "taken"),
    [
        (Claim.AUTO, [], [PLAIN, LABELLED, NAMED, BEGUN, THEIRS]),
        (Claim.AUTO, ["Lease x/mpi-operator"], [LABELLED, NAMED, BEGUN]),
        (Claim.ALL, ["Lease x/mpi-operator"], [PLAIN, LABELLED, NAMED, BEGUN, THEIRS]),
        (Claim.ASSIGNED, [], [LABELLED, NAMED, BEGUN]),
    ],
)
def test_which_jobs_are_taken(claim: Claim, seen: list[str], taken: list[Body]) -> None:
    jobs = (PLAIN, LABELLED, NAMED, BEGUN, THEIRS)
    assert [each for each in jobs if claims(claim, lambda _group: not seen, each)] == taken


@pytest.mark.parametrize(
    ("lease_name", "taken"), [("mpi-operator", [LABELLED, NAMED, BEGUN, T9KS]), (OWN[1], [LABELLED, NAMED, BEGUN])]
)
def test_kubeflow_s_operators_are_no_reason_to_leave_t9k_s_jobs(lease_name: str, taken: list[Body]) -> None:
    """A second operator of our own is one."""
    theirs, others = born(fresh("mpi-operator", lease_name), "2025-01-01T00:00:00Z"), Others()
    others.look_at([theirs, fresh(*OWN)] if lease_name == OWN[1] else [theirs], lease_name)
    jobs = (PLAIN, LABELLED, NAMED, BEGUN, T9KS)
    assert [each for each in jobs if claims(Claim.AUTO, others.is_alone, each)] == taken


@pytest.mark.parametrize("spec", [None, [], "x", {"runPolicy": 3}])
def test_a_job_of_any_form_can_be_asked_for(spec: Any) -> None:
    assert not claims(Claim.ASSIGNED, lambda _group: True, {"metadata": {"name": "x"}, "spec": spec})


class Api:
    def __init__(self) -> None:
        self.answers: dict[str, list[Body] | ApiError] = {}

    def items(self, path: str, *, fieldSelector: str) -> list[Body]:  # noqa: N803
        answer = self.answers.get(fieldSelector, [])
        if isinstance(answer, ApiError):
            raise answer
        return [one for one in answer if ("/leases" in path) == ("renewTime" in one["spec"])]


class Others(OtherOperators):
    """As they are known by an API server that says what a test wants."""

    def __init__(self, **more: Any) -> None:
        self.api = Api()
        super().__init__(self.api, *OWN, **more)  # type: ignore[arg-type]

    def look_at(self, answer: list[Body] | ApiError, *names: str) -> None:
        """Look, and be told this of these names, and of no other."""
        self.api.answers = {f"metadata.name={name}": answer for name in names or ("mpi-operator",)}
        self.look()


def fresh(namespace: str, name: str) -> Body:
    return lease(namespace, name, datetime.now(UTC).isoformat())


def test_coming_and_going_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told = list[frozenset[str]]()
    others: Others = Others(on_change=lambda: told.append(others.seen()))
    with caplog.at_level("INFO"):
        others.look_at([])
        others.look_at([fresh("mpi-operator", "mpi-operator")])
        others.look()
        others.look_at([])
    assert told == [frozenset(), {"Lease mpi-operator/mpi-operator"}, frozenset()]
    words = [each.getMessage() for each in caplog.records]
    assert "another operator for MPIJobs is running: Lease mpi-operator/mpi-operator." in words[0]
    assert "label mpi-agents/adopt=true or runPolicy.managedBy mpi-agents/operator" in words[0]
    assert words[-1] == "another operator for MPIJobs no longer runs: Lease mpi-operator/mpi-operator"


def test_what_may_not_be_listed_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    others = Others()
    with caplog.at_level("INFO"):
        others.look_at(RejectedError("no", 403), "mpi-operator", "training-operator")
        others.look()
    assert others.is_alone(GROUP)
    assert others.seen() == frozenset()
    said = [each.getMessage() for each in caplog.records]
    assert sorted(words.partition(": ")[0].rpartition(" ")[2] for words in said) == ["deployments", "leases"]


def test_a_refusal_while_the_api_server_starts_is_forgotten() -> None:
    """It refuses all requests until it has read the roles; an operator that then saw nobody would take others' jobs."""
    others, refused = Others(), RejectedError("forbidden: clusterrole not found", 403)
    others.look_at(refused)
    others.look_at([fresh("mpi-operator", "mpi-operator")])
    assert not others.is_alone(GROUP)
    others.look_at(refused)
    assert not others.is_alone(GROUP)
    others.look_at([])
    assert others.is_alone(GROUP)


def test_what_is_not_known_now_was_not_seen_to_go() -> None:
    """An API server that does not answer is no reason to take others' jobs."""
    others = Others()
    others.look_at([fresh("mpi-operator", "mpi-operator")])
    others.look_at(UnavailableError("no answer"))
    assert not others.is_alone(GROUP)
    assert "Lease mpi-operator/mpi-operator" in others.seen()


def test_nobody_is_alone_before_it_could_look() -> None:
    others = Others()
    others.look_at(UnavailableError("no answer"))
    assert not others.is_alone(GROUP)
    others.look_at([])
    assert others.is_alone(GROUP)


def test_it_looks_more_often_beside_another_because_jobs_wait_for_it_to_go() -> None:
    others = Others()
    pauses_s = [others.pause_s()]
    for seen in ([], [fresh("mpi-operator", "mpi-operator")]):
        others.look_at(seen)
        pauses_s.append(others.pause_s())
    assert pauses_s == [2, 60, 10]


def deployed(namespace: str, name: str) -> Body:
    made = deployment(name, 1, 1)
    made["metadata"]["namespace"] = namespace
    return made


TENANTS = [
    lease("team-a", "mpi-operator", "2099-01-01T00:00:00Z"),
    fresh("team-a", "mpi-operator"),
    fresh("team-a", "1ca428e5.training-operator.kubeflow.org"),
    born(fresh("team-a", OWN[1]), "2001-01-01T00:00:00Z"),  # as if it were an older one of ours
    deployed("team-a", "training-operator"),
    deployed("team-a", "mpi-operator"),
    deployed("kubeflow-team-a", "training-operator"),
    deployed("mpi-operator.x", "mpi-operator"),
]


@pytest.mark.parametrize("theirs", TENANTS, ids=lambda body: "{namespace}/{name}".format(**body["metadata"]))
def test_what_a_tenant_makes_in_its_own_namespace_is_no_other_operator(theirs: Body) -> None:
    others, name = Others(), theirs["metadata"]["name"]
    others.look_at([theirs], name)
    assert others.is_alone(GROUP)
    # Nor does it hide one that there is.
    real = deployed("kubeflow", name) if "replicas" in theirs["spec"] else fresh("kubeflow", name)
    own = [fresh(*OWN)] if name == OWN[1] else []
    others.look_at([theirs, *own, born(real, "2000-01-01T00:00:00Z")], name)
    assert others.others(GROUP) == {f"{'Deployment' if 'replicas' in theirs['spec'] else 'Lease'} kubeflow/{name}"}


@pytest.mark.parametrize(
    ("namespaces", "seen"),
    [
        (NAMESPACES, {"mpi-operator", "kubeflow", "kubeflow-system", "mpi-agents", "ours"}),
        (("team-a",), {"team-a", "ours"}),
        ((), {"ours"}),  # where the operator itself is, no tenant is
    ],
)
def test_which_namespaces_count_is_the_administrators_to_say(namespaces: tuple[str, ...], seen: set[str]) -> None:
    others = Others(namespaces=namespaces)
    others.look_at([deployed(each, "mpi-operator") for each in (*NAMESPACES, "team-a", "ours")])
    assert others.others(GROUP) == {f"Deployment {each}/mpi-operator" for each in seen}
