"""What is put beside the user's templates, and what stays as it is there."""

from __future__ import annotations

import pytest
from mpijobs import annotated, job
from pod_objects import CONTAINER, LAUNCHER, SETTINGS, WORKER, Object, launcher, named, ours, variables, worker

from agents.operator import objects

# What the user's containers keep.


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_launcher_with_a_gpu_sees_it(version: str) -> None:
    without, with_it = (
        launcher(version),
        launcher(version, {f"{LAUNCHER}/{CONTAINER}/resources/limits": {"a.com/gpu": 1}}),
    )
    assert variables(without["spec"]["containers"][0])["NVIDIA_VISIBLE_DEVICES"] == ""
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(with_it["spec"]["containers"][0])


@pytest.mark.parametrize(("replicas", "at_once"), [(2, "1000"), (1500, "1500")])
def test_as_many_agents_may_run_as_there_are_workers(replicas: int, at_once: str) -> None:
    found = variables(launcher(changes={f"{WORKER}/replicas": replicas})["spec"]["containers"][0])
    assert found["PRTE_MCA_plm_ssh_num_concurrent"] == at_once


@pytest.mark.parametrize(("transport", "is_worker"), [("exec", True), ("ssh", False), ("ssh", True)])
def test_a_launcher_that_is_a_host_looks_itself_up_by_ssh(transport: str, is_worker: bool) -> None:
    changes = {"spec/transport": transport, "spec/runLauncherAsWorker": is_worker}
    found = variables(launcher("v2beta1", changes)["spec"]["containers"][0])
    assert ("OMPI_MCA_if_base_do_not_resolve" in found) is not (transport == "ssh" and is_worker)
    assert (found.get("PRTE_MCA_prte_do_not_resolve") == "0") is (transport == "ssh" and is_worker)  # on by default


@pytest.mark.parametrize(
    ("implementation", "added", "file"),
    [
        ("OpenMPI", {"OMPI_MCA_orte_tag_output": "1"}, None),
        ("MPICH", {"HYDRA_CONFIG_FILE": "/etc/mpi/hydra.conf"}, "-prepend-pattern [%r]<output>:\n"),
        ("Intel", {}, None),  # has no variable
    ],
)
def test_output_is_tagged_by_the_environment(implementation: str, added: Object, file: str | None) -> None:
    before = {"spec/transport": "exec", "spec/mpiImplementation": implementation}
    after = before | {"spec/tagOutput": True}
    untagged, tagged = (variables(launcher("v2beta1", one)["spec"]["containers"][0]) for one in (before, after))
    assert tagged == untagged | added
    assert objects.config_map(job("v2beta1", after), SETTINGS, [0])["data"].get("hydra.conf") == file
    mounted = next(one["configMap"]["items"] for one in launcher("v2beta1", after)["spec"]["volumes"])
    assert ("hydra.conf" in {one["key"] for one in mounted}) is (file is not None)


def test_on_the_hosts_network_no_interface_is_named() -> None:
    changes = {"spec/mpiImplementation": "MPICH", f"{LAUNCHER}/template/spec/hostNetwork": True}
    pod = launcher("v2beta1", changes)
    assert "HYDRA_IFACE" not in variables(pod["spec"]["containers"][0])
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_labels_of_the_users_stay_but_for_those_by_which_pods_are_found() -> None:
    given = {"job": "mine", "mpi-agents/role": "launcher", "training.kubeflow.org/replica-index": "7"}
    labels = worker(changes={f"{WORKER}/template/metadata/labels": given}, index=1)["metadata"]["labels"]
    assert labels["job"] == "mine"
    assert labels["mpi-agents/role"] == "worker"
    assert labels["training.kubeflow.org/replica-index"] == "1"


# Which container it is.


@pytest.mark.parametrize(
    ("changes", "container"),
    [({}, "mpi"), ({"spec/mainContainer": "second"}, "second"), (annotated(main_container="second"), "second")],
)
def test_the_main_container_is_the_named_one_or_the_first(changes: Object, container: str) -> None:
    both = [{"name": "mpi", "image": "i"}, {"name": "second", "image": "i"}]
    changes = changes | {f"{role}/template/spec/containers": both for role in (LAUNCHER, WORKER)}
    for pod in (launcher(changes=changes), worker(changes=changes)):
        mounted = [one["name"] for one in pod["spec"]["containers"] if one.get("volumeMounts")]
        assert mounted == [container]
        assert pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == container
    assert "env" in named(launcher(changes=changes)["spec"]["containers"], container)
    assert ours(launcher(changes=changes))[0]["command"] == ["rshagent-hub", "--container", container]


def test_a_main_container_that_workers_alone_have_leaves_the_launcher_its_first() -> None:
    both = [{"name": "log", "image": "i"}, {"name": "train", "image": "i"}]
    changes = {"spec/mainContainer": "train", f"{WORKER}/template/spec/containers": both}
    assert "env" in launcher(changes=changes)["spec"]["containers"][0]
    assert "command" not in worker(changes=changes)["spec"]["containers"][0]


def test_a_default_container_of_the_users_stays() -> None:
    given = {"kubectl.kubernetes.io/default-container": "log"}
    pod = launcher(changes={f"{LAUNCHER}/template/metadata/annotations": given})
    assert pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "log"


# Workers.


@pytest.mark.parametrize(
    ("version", "given", "waits"),
    [
        ("v1", {}, True),
        ("v1", {"args": ["serve"]}, True),  # as in both of kubeflow's
        ("v1", {"command": ["run"], "args": ["x"]}, False),
        ("v2beta1", {}, True),
        ("v2beta1", {"args": ["serve"]}, False),
        ("v2beta1", {"command": ["/usr/sbin/sshd", "-De"]}, False),
    ],
)
def test_a_worker_without_a_command_waits(version: str, given: Object, waits: bool) -> None:
    changes = {f"{WORKER}/{CONTAINER}/{key}": value for key, value in given.items()}
    container = worker(version, changes)["spec"]["containers"][0]
    found = {key: container[key] for key in ("command", "args") if key in container}
    assert (found["command"][0] == "/bin/sh" and "args" not in found) if waits else found == given


@pytest.mark.parametrize(("policy", "restart"), [("Never", "Never"), ("OnFailure", "OnFailure"), ("ExitCode", "Never")])
def test_restart_policy_is_the_roles(policy: str, restart: str) -> None:
    changes = {f"{WORKER}/restartPolicy": policy, f"{WORKER}/template/spec/restartPolicy": "Always"}
    assert worker(changes=changes)["spec"]["restartPolicy"] == restart


def test_a_template_is_known_by_its_hash_and_nothing_else_is_in_it() -> None:
    before, scaled = worker(), worker(changes={f"{WORKER}/replicas": 9, "spec/slotsPerWorker": 8})
    changed = worker(changes={f"{WORKER}/{CONTAINER}/image": "new"})
    hashes = [one["metadata"]["annotations"]["mpi-agents/template"] for one in (before, scaled, changed)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert hashes[0] == objects.template_hash(job("v1").worker)
