"""The chart as text: what it is rendered to, and what it does not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.operator.helm import CHART, INSTALL_YAML, Helm, HelmError, install_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.kube import Object

DIGEST = "sha256:" + "0" * 64
RELEASE = "mpi-agents"
T9K: Mapping[str, Any] = {"t9k": {"enabled": True}}


def rendered(values: Mapping[str, Any] | None = None) -> dict[tuple[str, str], Object]:
    """All objects by kind and name, with the namespace before the name where it is not the release's."""
    found = {}
    for one in yaml.safe_load_all(Helm().template(values)):
        if one:
            metadata = one["metadata"]
            place = metadata.get("namespace", RELEASE)
            name = metadata["name"] if place == RELEASE else f"{place}/{metadata['name']}"
            found[one["kind"], name] = one
    return found


def container(values: Mapping[str, Any] | None = None) -> Object:
    """The operator's container."""
    deployment = rendered(values)["Deployment", RELEASE]
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_helm_finds_no_fault_in_it() -> None:
    assert "0 chart(s) failed" in Helm().run("lint", str(CHART), "--strict")


def test_install_yaml_is_what_the_chart_is_rendered_to() -> None:
    assert INSTALL_YAML.read_text() == install_yaml(), "make install-yaml"


def test_the_default_is_one_cluster_wide_operator() -> None:
    found = rendered()
    assert ("CustomResourceDefinition", "mpijobs.kubeflow.org") in found
    assert {kind for kind, _ in found} == {
        *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment", "Role", "RoleBinding"),
        *("Service", "ServiceAccount"),
    }
    assert found["Service", RELEASE]["spec"]["clusterIP"] == "None"


KUBECTL = {"jobs": {"tools": ["kubectl"], "kubectlImage": "r/agents:2-kubectl"}}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {},
            ["--image=mpi-agents:0.1.0", "--run-as-user=65532", "--agent-cpu-limit=1", "--t9k=off"],
        ),
        ({"image": {"tag": "1.2"}}, ["--image=mpi-agents:1.2"]),
        ({"image": {"tag": "1.2", "digest": DIGEST}}, [f"--image=mpi-agents@{DIGEST}"]),
        ({"global": {"imageRegistry": "r.example.org/team/"}}, ["--image=r.example.org/team/mpi-agents:0.1.0"]),
        ({"global": {"imageRegistry": "r"}, "image": {"registry": "own"}}, ["--image=own/mpi-agents:0.1.0"]),
        ({"jobs": {"runAsUser": None}}, ["--run-as-user=none"]),
        ({"jobs": {"runAsUser": 1000650000}}, ["--run-as-user=1000650000"]),  # OpenShift's are large
        ({"jobs": {"cpuLimit": "250m"}}, ["--agent-cpu-limit=250m"]),
        ({"jobs": {"cpuLimit": 2}}, ["--agent-cpu-limit=2"]),
        ({"jobs": {"cpuLimit": 0.5}}, ["--agent-cpu-limit=0.5"]),
        ({"jobs": {"workerAgent": False}}, ["--no-worker-agent"]),
        (KUBECTL, ["--tool=kubectl", "--kubectl-image=r/agents:2-kubectl"]),
        (T9K, ["--t9k=auto"]),
        ({"namespaces": ["a", "b"]}, ["--namespace=a", "--namespace=b"]),
    ],
)
def test_values_become_arguments(values: Object, expected: list[str]) -> None:
    found = container(values)
    assert {*expected} <= {*found["args"]}
    assert f"--image={found['image']}" in found["args"]
    unasked = ("--tool", "--kubectl-image", "--no-worker-agent", "--namespace=")
    assert values or not [word for word in found["args"] if word.startswith(unasked)]


def test_users_are_left_to_a_platform_that_assigns_them() -> None:
    pod = rendered({"podSecurityContext": {"runAsUser": None, "runAsGroup": None}})["Deployment", RELEASE]
    context = pod["spec"]["template"]["spec"]["securityContext"]
    assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_pull_secrets_go_to_the_operator_and_into_jobs() -> None:
    values = {
        "global": {"imagePullSecrets": ["shared"]},
        "imagePullSecrets": ["own", "shared"],
        "jobs": {"imagePullSecrets": ["theirs"]},
    }
    pod = rendered(values)["Deployment", RELEASE]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "shared"}, {"name": "own"}]
    told = [word for word in container(values)["args"] if word.startswith("--image-pull-secret=")]
    assert told == ["--image-pull-secret=shared", "--image-pull-secret=theirs"]


def test_namespaces_take_the_place_of_cluster_wide_rights() -> None:
    found = rendered({"namespaces": ["a", "b"], "userRoles": {"create": False}})
    assert not [kind for kind, _ in found if kind.startswith("ClusterRole")]
    everywhere = [rule for rule in rendered()["ClusterRole", RELEASE]["rules"] if rule["verbs"] != ["list"]]
    assert found["Role", "a/mpi-agents"]["rules"] == found["Role", "b/mpi-agents"]["rules"] == everywhere


@pytest.mark.parametrize(
    ("scheduler", "group"),
    [
        ("volcano", "scheduling.volcano.sh"),
        ("coscheduling", "scheduling.x-k8s.io"),
        ("t9k", "scheduler.tensorstack.dev"),
    ],
)
def test_pod_groups_are_a_right_where_there_are_any(scheduler: str, group: str) -> None:
    rules = rendered({"jobs": {"gangScheduler": scheduler}})["ClusterRole", RELEASE]["rules"]
    assert [rule["apiGroups"] for rule in rules if "podgroups" in rule["resources"]] == [[group]]
    assert not [rule for rule in rendered()["ClusterRole", RELEASE]["rules"] if "podgroups" in rule["resources"]]


def test_an_operator_that_may_make_no_roles_has_none_of_their_rights() -> None:
    rules = rendered({"rbac": {"launcherRoles": False}})["ClusterRole", RELEASE]["rules"]
    verbs = {resource: rule["verbs"] for rule in rules for resource in rule["resources"]}
    assert "pods/exec" not in verbs
    assert verbs["roles"] == verbs["rolebindings"] == ["list", "watch"]


def test_t9k_s_jobs_are_taken_or_left_as_a_whole() -> None:
    group, definition = "batch.tensorstack.dev", ("CustomResourceDefinition", "mpijobs.batch.tensorstack.dev")
    taken = rendered(T9K)
    file = yaml.safe_load((CHART / "definitions" / f"{group}_mpijobs.yaml").read_text())
    assert taken[definition]["spec"] == file["spec"]
    for name in (RELEASE, "kubeflow-mpijobs-edit", "kubeflow-mpijobs-view"):
        rules = [rule for rule in taken["ClusterRole", name]["rules"] if "mpijobs" in rule["resources"]]
        assert [rule["apiGroups"] for rule in rules] == [["kubeflow.org", group]]
    assert group not in str(rendered())


@pytest.mark.parametrize("group", ["kubeflow.org", "batch.tensorstack.dev"])
def test_a_kept_definition_says_so_to_helm(group: str) -> None:
    key = ("CustomResourceDefinition", f"mpijobs.{group}")
    assert rendered(T9K)[key]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in rendered({**T9K, "crds": {"keep": False}})[key]["metadata"]
    assert key not in rendered({**T9K, "crds": {"install": False}})


def test_names_of_digits_or_words_of_yaml_stay_text() -> None:
    """What the API server takes for names alone: whatever else they are to YAML."""
    values = {
        "namespaces": ["123", "on"],
        "fullnameOverride": "456",
        "nameOverride": "true",
        "priorityClassName": "789",
        "imagePullSecrets": ["0123", "no"],
        "serviceAccount": {"name": "0x1"},
        "replicas": 2,
        "podDisruptionBudget": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "createNamespace": True,
        "metrics": {"serviceMonitor": {"enabled": True}},
    }
    text = Helm(namespace="42").template(values, name="7")
    objects = [one for one in yaml.safe_load_all(text) if one]
    names = {name for one in objects for key in ("name", "namespace") if (name := one["metadata"].get(key))}
    assert {"123", "on", "456", "0x1", "42"} <= names
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "0123"}, {"name": "no"}]
    assert (pod["spec"]["priorityClassName"], pod["spec"]["serviceAccountName"]) == ("789", "0x1")
    selected = {"app.kubernetes.io/name": "true", "app.kubernetes.io/instance": "7"}
    assert deployment["spec"]["selector"]["matchLabels"] == selected
    assert pod["metadata"]["labels"].items() >= selected.items()
    for one in objects:
        parts = [one["metadata"], *(one.get(key, {}) for key in ("rules", "roleRef", "subjects"))]
        assert all(isinstance(word, str) for word in leaves(parts)), one


def leaves(part: Any) -> Iterator[object]:
    """All values that hold no others."""
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from leaves(one)
    if not isinstance(part, dict | list):
        yield part


def test_labels_and_annotations_of_the_users_win_over_ours() -> None:
    values = {
        "podLabels": {"sidecar.istio.io/inject": "true", "app.kubernetes.io/name": "other", "team": "x"},
        "podAnnotations": {"linkerd.io/inject": "enabled", "a": "b"},
        "metrics": {"serviceMonitor": {"enabled": True, "labels": {"app.kubernetes.io/version": "9"}}},
    }
    text = Helm().template(values)
    for key in ("sidecar.istio.io/inject", "linkerd.io/inject"):
        assert text.count(f"{key}:") == 1
    found = rendered(values)
    pod = found["Deployment", RELEASE]["spec"]["template"]["metadata"]
    assert pod["labels"] == {
        "app.kubernetes.io/name": RELEASE,  # what the Deployment selects by
        "app.kubernetes.io/instance": RELEASE,
        "app.kubernetes.io/version": "0.1.0",
        "sidecar.istio.io/inject": "true",
        "team": "x",
    }
    assert pod["annotations"] == {"linkerd.io/inject": "enabled", "a": "b"}
    assert found["ServiceMonitor", RELEASE]["metadata"]["labels"]["app.kubernetes.io/version"] == "9"


def test_what_is_off_by_default_is_made_when_asked_for() -> None:
    found = rendered(
        {
            "replicas": 2,
            "podDisruptionBudget": {"enabled": True},
            "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]},
            "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        }
    )
    assert found["PodDisruptionBudget", RELEASE]["spec"]["minAvailable"] == 1
    policy = found["NetworkPolicy", RELEASE]["spec"]
    assert policy["ingress"] == [{"ports": [{"port": "http"}], "from": [{"podSelector": {}}]}]
    assert policy["policyTypes"] == ["Ingress"]
    assert found["ServiceMonitor", RELEASE]["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"image": {"digest": "sha256:short"}}, "digest"),
        ({"namespaces": ["Not_A_Name"]}, "namespaces"),
        ({"operator": {"logLevel": "loud"}}, "logLevel"),
        ({"global": None}, "missing property 'global'"),
        ({"jobs": None}, "missing property 'jobs'"),
        ({"metrics": {"service": None}}, "missing property 'service'"),
        ({"jobs": {"cpuLimit": "0m"}}, "cpuLimit"),
        ({"jobs": {"cpuLimit": "1.2.3"}}, "cpuLimit"),
        ({"jobs": {"cpuLimit": 0}}, "cpuLimit"),
        ({"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}}, "metrics.service.enabled"),
        ({"podDisruptionBudget": {"enabled": True}}, "drained"),
    ],
)
def test_a_value_that_means_nothing_is_refused(values: Object, said: str) -> None:
    with pytest.raises(HelmError, match=said):
        Helm().template(values)
