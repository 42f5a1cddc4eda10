"""The chart's files agree with each other and with the project; what helm makes of them is for the cluster tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agents.client.doctor import rights
from agents.kube.kinds import MPI_JOB_V1, MPI_JOB_V2BETA1
from agents.operator.other_operators import NAMESPACES
from images import catalog
from tests import yamls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agents.kube.kinds import Kind

Object = dict[str, Any]

CHART = Path(catalog.ROOT) / "charts" / "mpi-agents"
VALUES: Object = yamls.load((CHART / "values.yaml").read_text())
SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text())
INSTALLED: list[Object] = [
    one for one in yamls.load_all((Path(catalog.ROOT) / "install.yaml").read_text()) if one is not None
]
# These belong to Kubernetes: the chart hands them on as they are, or knows no keys of its own there.
OPEN = {"resources", "podSecurityContext", "affinity", "nodeSelector", "podAnnotations", "podLabels"}


def installed(kind: str, name: str) -> Object:
    """The object in install.yaml."""
    (found,) = [one for one in INSTALLED if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def paths(values: Object, prefix: str = "") -> Iterator[str]:
    """The names of all values: `image.tag`."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        yield path
        if isinstance(value, dict) and path not in OPEN and not path.endswith(("annotations", "labels")):
            yield from paths(value, f"{path}.")


def described(path: str) -> Object | None:
    """What the schema says of a value, None if nothing."""
    found: Object | None = SCHEMA
    for name in path.split("."):
        found = (found or {}).get("properties", {}).get(name)
    return found


def test_the_chart_has_the_projects_version() -> None:
    chart = yamls.load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {catalog.version()}


@pytest.mark.parametrize("path", [*paths(VALUES)])
def test_every_value_is_in_the_schema(path: str) -> None:
    assert described(path) is not None


def test_the_schema_has_no_value_that_is_not_there() -> None:
    assert SCHEMA["additionalProperties"] is False
    assert SCHEMA["properties"].keys() == VALUES.keys()


def test_the_schema_refuses_a_section_that_is_taken_away() -> None:
    """By null: templates would look into nothing, and Helm would tell of a pointer."""
    sections = {path for path in paths(VALUES) if "properties" in (described(path) or {})} - OPEN
    assert {"global", "jobs", "metrics.service"} <= sections
    for path in sections:
        part, _, name = path.rpartition(".")
        assert name in ((described(part) if part else SCHEMA) or {})["required"], path


def test_templates_use_the_values_that_there_are_and_all_of_them() -> None:
    text = "".join(path.read_text() for path in CHART.glob("templates/*"))
    used = set(re.findall(r"\.Values\.([A-Za-z0-9.]+)", text))
    there = set(paths(VALUES))
    assert used <= there
    parts = {path for path in there if any(other.startswith(f"{path}.") for other in there)}
    assert there - parts <= used


@pytest.mark.parametrize("group", ["kubeflow.org", "batch.tensorstack.dev"])
def test_a_definition_has_no_labels_of_its_own(group: str) -> None:
    file = yamls.load((CHART / "definitions" / f"{group}_mpijobs.yaml").read_text())
    assert file["metadata"] == {"name": f"mpijobs.{group}"}  # the template puts them there, by text


def test_the_definition_is_the_file() -> None:
    file = yamls.load((CHART / "definitions" / "kubeflow.org_mpijobs.yaml").read_text())
    assert installed("CustomResourceDefinition", "mpijobs.kubeflow.org")["spec"] == file["spec"]


def test_nothing_of_t9k_s_is_there_unless_it_is_asked_for() -> None:
    """Beside its definition, kubectl would take `mpijob` for T9k's."""
    assert "batch.tensorstack.dev" not in str(INSTALLED)


def test_the_rights_are_these_and_no_others() -> None:
    made = {"get", "list", "watch", "create"}
    rights = {
        (group, resource, *rule.get("resourceNames", ())): set(rule["verbs"])
        for rule in installed("ClusterRole", "mpi-agents")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    others = ("mpi-operator", "1ca428e5.training-operator.kubeflow.org")
    assert rights == {
        ("kubeflow.org", "mpijobs"): {"list", "watch", "delete"},
        ("kubeflow.org", "mpijobs/status"): {"update"},
        ("kubeflow.org", "mpijobs/finalizers"): {"update"},
        ("mpi-agents.io", "virtualclusters"): {"list", "watch"},
        ("mpi-agents.io", "virtualclusters/status"): {"update"},
        ("mpi-agents.io", "virtualclusters/finalizers"): {"update"},
        ("", "pods"): made | {"delete", "deletecollection"},
        ("", "pods/exec"): {"get", "create"},
        ("", "configmaps"): made | {"patch"},
        ("", "secrets"): {"list", "watch", "create"},
        ("", "services"): made,
        ("", "serviceaccounts"): made | {"delete"},
        ("", "events"): {"create", "patch"},
        ("batch", "jobs"): made | {"delete"},
        ("rbac.authorization.k8s.io", "roles"): made | {"patch", "delete"},
        ("rbac.authorization.k8s.io", "rolebindings"): made | {"patch", "delete"},
        ("coordination.k8s.io", "leases", "mpi-agents-operator", *others): {"list"},
        ("apps", "deployments", "mpi-operator", "training-operator"): {"list"},
        ("", "nodes"): {"list"},
    }


def test_users_have_kubeflows_roles() -> None:
    admin = installed("ClusterRole", "kubeflow-mpijobs-admin")
    assert admin["aggregationRule"]["clusterRoleSelectors"] == [
        {"matchLabels": {"rbac.authorization.kubeflow.org/aggregate-to-kubeflow-mpijobs-admin": "true"}}
    ]
    for name, of in (("edit", ("edit", "mpijobs-admin")), ("view", ("view",)), ("admin", ("admin",))):
        labels = installed("ClusterRole", f"kubeflow-mpijobs-{name}")["metadata"]["labels"]
        prefix = "rbac.authorization.kubeflow.org/aggregate-to-kubeflow-"
        assert {label for label in labels if label.startswith(prefix)} == {prefix + one for one in of}


def test_the_operator_asks_for_no_privilege() -> None:
    pod = installed("Deployment", "mpi-agents")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["enableServiceLinks"] is False  # a Service mpi-operator would set MPI_OPERATOR_PORT
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["image"] == f"mpi-agents:{catalog.version()}"
    assert "memory" in container["resources"]["limits"]


def test_other_operators_are_looked_for_where_the_operator_does_by_itself() -> None:
    assert VALUES["otherOperatorNamespaces"] == list(NAMESPACES)


def rights_of(role: str) -> set[tuple[str, str, str]]:
    """What a role of install.yaml allows: API group, resource and verb."""
    return {
        (group, resource, verb)
        for rule in installed("ClusterRole", role)["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("kind", [MPI_JOB_V1, MPI_JOB_V2BETA1])
def test_users_have_roles_for_all_commands(kind: Kind) -> None:
    """Those that `doctor` asks for."""
    groups = [
        {(one.kind.group, "/".join(filter(None, (one.kind.plural, one.subresource))), one.verb) for one in found}
        for found in rights.needed(kind).values()
    ]
    assert groups[0] <= rights_of("mpi-agents-user-view")
    assert set.union(*groups) <= rights_of("mpi-agents-user-edit")
    assert {verb for _, _, verb in rights_of("mpi-agents-user-view")} == {"get", "list", "watch"}
    assert rights_of("mpi-agents-user-view") <= rights_of("mpi-agents-user-edit")
