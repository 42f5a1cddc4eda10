"""Names in DNS, hosts in the hostfile, and rights by name."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpijobs import annotated, job
from pod_objects import EXEC, LAUNCHER, SETTINGS, WORKER, Object, launcher, variables, worker

from agents.operator import objects
from agents.operator.settings import PodSettings

PART = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(PART, min_size=1, max_size=3).map(lambda parts: ".".join(parts)[:53].rstrip(".-"))


def hostfile(version: str, changes: Object, settings: PodSettings = SETTINGS) -> list[str]:
    return str(objects.config_map(job(version, EXEC | changes), settings, [0, 1, 10])["data"]["hostfile"]).splitlines()


@pytest.mark.parametrize(
    ("name", "service", "hostname"),
    [
        ("pi", "pi", "pi-worker-0"),
        ("4pi", "mpi-4pi-eda82f80", "4pi-worker-0"),  # sha256 of the name
        ("a.b", "mpi-a-b-2e7336dc", "a-b-2e7336dc-worker-0"),
    ],
)
def test_what_has_to_be_a_label_is_derived_where_the_name_is_none(name: str, service: str, hostname: str) -> None:
    changes = {"metadata/name": name}
    pod = worker("v2beta1", changes)
    assert pod["metadata"]["name"] == f"{name}-worker-0"
    assert objects.service(job("v2beta1", changes), SETTINGS)["metadata"]["name"] == service
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (hostname, service)
    assert pod["spec"]["dnsConfig"]["searches"] == [f"{service}.default.svc.cluster.local"]
    assert hostfile("v2beta1", changes)[0] == f"{name}-worker-0.{service}.default.svc slots=1"


@pytest.mark.parametrize("version", ["v1", "v2beta1", "t9k"])
def test_ssh_finds_each_pod_by_a_name_that_it_has_in_dns(version: str) -> None:
    changes = {"metadata/name": "a.b", "spec/transport": "ssh"}
    if version == "t9k":
        changes["spec/worker/template/spec/hostname"] = "one-for-all"
    made = job(version, changes)
    [line] = objects.config_map(made, SETTINGS, [0])["data"]["hostfile"].splitlines()
    spec = objects.worker(made, 0, SETTINGS)["spec"]
    assert spec["hostname"] == "a-b-2e7336dc-worker-0"
    assert line.split()[0].partition(".")[0] == spec["hostname"]
    assert spec["subdomain"] == objects.service(made, SETTINGS)["metadata"]["name"]


@given(NAMES, st.sampled_from(["v1", "v2beta1"]))
@example("a" * 63, "v1")
@example("4" + "a" * 53, "v2beta1")
@example("a" * 30 + "." + "b" * 23, "v2beta1")
def test_derived_names_are_labels(name: str, version: str) -> None:
    made = {"metadata/name": name}
    spec = worker(version, made, index=1)["spec"]
    service = objects.service(job(version, EXEC | made), SETTINGS)["metadata"]["name"]
    assert spec["subdomain"] == service == launcher(version, made)["spec"]["subdomain"]
    assert re.fullmatch("[a-z]([-a-z0-9]{0,61}[a-z0-9])?", service)
    for pod in (worker(version, made, index=1), launcher(version, made)):
        assert re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", pod["spec"]["hostname"])
        assert all(len(value) <= 63 for value in pod["metadata"]["labels"].values())


@pytest.mark.parametrize(("name", "keeps"), [("pi", False), ("a.b", True)])
def test_open_mpi_cuts_no_name_that_has_dots(name: str, keeps: bool) -> None:
    found = variables(launcher("v1", {"metadata/name": name})["spec"]["containers"][0])
    assert (found.get("PRTE_MCA_prte_keep_fqdn_hostnames") == "true") is keeps
    assert (found.get("OMPI_MCA_orte_keep_fqdn_hostnames") == "true") is keeps


def test_derived_names_tell_jobs_apart() -> None:
    services = {
        objects.service(job("v1", {"metadata/name": name}), SETTINGS)["metadata"]["name"] for name in ("a.b", "a-b")
    }
    assert len(services) == 2


@pytest.mark.parametrize(
    ("version", "changes", "lines"),
    [
        ("v1", {}, ["pi-worker-0 slots=1", "pi-worker-1 slots=1", "pi-worker-10 slots=1"]),
        ("v1", annotated(mpi_implementation="Intel"), ["pi-worker-0:1", "pi-worker-1:1", "pi-worker-10:1"]),
        (
            "v1",
            {
                f"{LAUNCHER}/template/spec/containers/0/resources/limits": {"nvidia.com/gpu": 1},
                "spec/slotsPerWorker": 8,
            },
            ["pi-launcher slots=8", "pi-worker-0 slots=8", "pi-worker-1 slots=8", "pi-worker-10 slots=8"],
        ),
        (
            "v2beta1",
            {"spec/mpiImplementation": "MPICH", "spec/runLauncherAsWorker": True},
            [f"pi-{one}.pi.default.svc.z:1" for one in ("launcher", "worker-0", "worker-1", "worker-10")],
        ),
    ],
)
def test_hostfile_is_the_implementations(version: str, changes: Object, lines: list[str]) -> None:
    assert hostfile(version, changes, PodSettings(image="i", cluster_domain="z")) == lines


def test_a_launcher_that_is_a_worker_is_the_first_of_them() -> None:
    changes = {"spec/runLauncherAsWorker": True}
    index = "training.kubeflow.org/replica-index"
    assert launcher("v2beta1", changes)["metadata"]["labels"][index] == "0"
    assert worker("v2beta1", changes, index=0)["metadata"]["labels"][index] == "1"
    assert index not in launcher("v2beta1")["metadata"]["labels"]


def test_no_hosts_make_a_script_that_a_shell_takes() -> None:
    text = objects.config_map(job("v1"), SETTINGS, [])["data"]["discover_hosts.sh"]
    assert text == "#!/bin/sh\n/opt/kube/rshagent --discover-hosts || {\n:\n}\n"


def test_v1_leaves_names_in_dns_to_the_template_that_has_them() -> None:
    changes = {f"{WORKER}/template/spec/{key}": "mine" for key in ("hostname", "subdomain")}
    assert worker("v1", changes)["spec"]["subdomain"] == "mine"
    assert worker("v2beta1", changes)["spec"]["subdomain"] == "pi"


def test_search_domains_and_dns_policy_of_the_users_stay() -> None:
    spec = f"{WORKER}/template/spec"
    changes = {f"{spec}/dnsConfig": {"searches": ["corp"]}, f"{spec}/hostNetwork": True, f"{spec}/dnsPolicy": "Default"}
    made = worker(changes=changes)["spec"]
    assert made["dnsConfig"]["searches"] == ["corp", "pi.default.svc.cluster.local"]
    assert made["dnsPolicy"] == "Default"


# Rights.


def test_a_role_without_workers_does_not_become_one_for_all_pods() -> None:
    role = objects.role(job("v1"), SETTINGS, [])
    assert role is not None
    assert [rule["resources"] for rule in role["rules"]] == [["pods"]]


@pytest.mark.parametrize("key", ["serviceAccountName", "serviceAccount"])
def test_a_service_account_of_the_users_is_bound(key: str) -> None:
    changes = {f"{LAUNCHER}/template/spec/{key}": "mine"}
    binding = objects.role_binding(job("v1", changes), SETTINGS)
    assert objects.service_account(job("v1", changes), SETTINGS) is None
    assert binding is not None
    assert binding["subjects"][0]["name"] == "mine"
    assert launcher(changes=changes)["spec"]["serviceAccountName"] == "mine"


@pytest.mark.parametrize(
    ("account", "subject"), [({}, "default"), ({f"{LAUNCHER}/template/spec/serviceAccountName": "mine"}, "mine")]
)
def test_no_rights_are_made_where_they_are_an_administrators(account: Object, subject: str) -> None:
    changes = {"spec/rbac": "none"} | account
    made = job("v1", changes)
    assert (
        objects.service_account(made, SETTINGS),
        objects.role(made, SETTINGS, [0]),
        objects.role_binding(made, SETTINGS),
    ) == (None, None, None)
    assert launcher(changes=changes)["spec"].get("serviceAccountName", "default") == subject
    words = objects.needed_rule(made, [0])
    assert words.startswith(f"ServiceAccount {subject} in namespace default needs a Role with rules: ")
    assert json.loads(words.partition("rules: ")[2])[1]["resourceNames"] == ["pi-worker-0"]


def test_the_rule_of_a_large_job_fits_into_a_condition() -> None:
    words = objects.needed_rule(job("v1"), range(5000))
    assert len(words) < 32768
    assert words.endswith("with 4900 more names of that kind")
