"""VirtualClusters: what their fields mean for the job's templates, and what is refused, with its path."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import ABSENT, annotated, job, mpijob, problems

from agents.job.application import DVM_PATH
from agents.job.model import Dialect, RestartPolicy, Transport
from agents.job.run_mode import WAIT

Object = dict[str, Any]

NODE = "spec/nodes/template/spec/containers/0"
LOGIN = {"spec": {"containers": [{"name": "shell", "image": "example/login"}]}}
SHM = {"name": "mpi-agents-shm", "mountPath": "/dev/shm"}
DVM = {"spec/dvm": {"enabled": True, "args": ["--prtemca", "a", "b c"]}}


APP = {"name": "app", "image": "example/app"}
RUNS = "can't be given: mpi-runner is the command, and mpi-wrap starts programs"
WRONG = [
    ("name", ABSENT, ".name: is required"),
    ("name", "mpi", '.name: "mpi" is there already: each container of a pod has its own name'),
    ("name", "App", ".name: must be 1 to 63 of a-z, 0-9 and '-', with a letter or digit at each end"),
    ("name", 1, ".name: must be text, not the number 1"),
    ("image", ABSENT, ".image: is required"),
    ("image", [], ".image: must be text, not a list"),
    ("command", ["/a"], f".command: {RUNS}"),
    ("args", ["/a"], f".args: {RUNS}"),
    ("env", {}, ".env: must be a list, not an object"),
    ("env", [{"value": "x"}], ".env[0].name: is required"),
    ("volumeMounts", [{"name": "x"}], ".volumeMounts[0].mountPath: is required"),
    ("securityContext", 1, ".securityContext: must be an object, not the number 1"),
    ("resources", {"limits": {"cpu": "much"}}, ".resources.limits[cpu]: must be a quantity, as 500m or 2Gi"),
]


def application(changes: Object) -> Object:
    """One application container with this change."""
    container = {key: value for key, value in {**APP, **changes}.items() if value is not ABSENT}
    return {"spec/application/containers": [container]}


def only(template: Any) -> Object:
    """A template's one container."""
    (container,) = template["spec"]["containers"]
    return dict(container)


def test_nodes_are_workers_and_the_login_pod_is_a_launcher_that_never_ends() -> None:
    found = job("virtual", {"spec/nodes/slots": 4})
    assert (found.dialect, found.transport, found.slots) == (Dialect.VIRTUAL, Transport.EXEC, 4)
    assert (found.launcher_name, found.worker_name(7)) == ("vc-login", "vc-node-7")
    assert (found.worker.replicas, found.generation) == (2, 3)
    assert {found.worker.restart_policy, found.launcher.restart_policy} == {RestartPolicy.ALWAYS}
    assert found.dialect.never_ends
    assert found.launcher_waits


def test_login_is_by_default_the_nodes_main_container_that_waits() -> None:
    container = {
        "name": "mpi",
        "image": "example/mpi",
        "command": ["/train"],
        "args": ["x"],
        "readinessProbe": {},
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 2}},
    }
    found = job("virtual", {"spec/nodes/template/spec/containers": [container, {"name": "side"}]})
    login = only(found.launcher.template)
    assert login == {
        "name": "mpi",
        "image": "example/mpi",
        "command": list(WAIT),
        "resources": {"limits": {"cpu": 2}},
        "volumeMounts": [SHM],
    }
    assert found.worker.template["spec"]["containers"][0] == {**container, "volumeMounts": [SHM]}


@pytest.mark.parametrize(
    ("own", "command"),
    [
        ({}, {"command": list(WAIT)}),
        ({"args": ["x"]}, {"command": list(WAIT)}),
        ({"command": ["/a"], "args": ["b"]}, {}),
    ],
)
def test_a_login_container_without_a_command_waits(own: Object, command: Object) -> None:
    container = {"name": "shell", "image": "example/login", **own}
    found = job("virtual", {"spec/login/template": {"spec": {"containers": [container]}}})
    expected = {key: value for key, value in container.items() if "command" in own or key != "args"}
    assert only(found.launcher.template) == {**expected, **command, "volumeMounts": [SHM]}


@pytest.mark.parametrize("given", [{}, {"spec/login/template": LOGIN}])
def test_dvm_runs_prte_and_is_ready_when_prte_says_so(given: Object) -> None:
    found = job("virtual", {**given, **DVM})
    assert found.has_dvm
    login = only(found.launcher.template)
    shell, option, text, *args = login["command"]
    assert (shell, option, args) == ("/bin/sh", "-c", ["dvm", "--prtemca", "a", "b c"])
    assert "prte --report-uri" in text
    assert login["readinessProbe"]["exec"]["command"][-1].startswith(f"until test -e {DVM_PATH}/ready;")
    assert {"name": "mpi-agents-dvm", "mountPath": DVM_PATH} in login["volumeMounts"]
    assert "mpi-agents-dvm" not in {one["name"] for one in found.worker.template["spec"]["volumes"]}


@pytest.mark.parametrize(
    ("size", "expected"),
    [(ABSENT, "1Gi"), ("2Gi", "2Gi"), (1048576, "1048576"), ("0", None), (0, None), ("0Mi", None), ("1e3", "1e3")],
)
def test_shared_memory(size: Any, expected: str | None) -> None:
    found = job("virtual", {} if size is ABSENT else {"spec/sharedMemory": size})
    for role in (found.worker, found.launcher):
        volumes = role.template["spec"].get("volumes", [])
        assert volumes == (
            [{"name": "mpi-agents-shm", "emptyDir": {"medium": "Memory", "sizeLimit": expected}}] if expected else []
        )
        assert only(role.template).get("volumeMounts", []) == ([SHM] if expected else [])


def test_application_containers_are_beside_the_main_one_in_all_pods() -> None:
    main = {"name": "mpi", "image": "example/mpi", "securityContext": {"runAsUser": 7}}
    own = {"securityContext": {"runAsUser": 8}, "env": [{"name": "PMIX_SERVER_TMPDIR", "value": "/mine"}]}
    given = [{**APP, "resources": {"limits": {"example.com/gpu": 1}}}, {**APP, "name": "other", **own}]
    changes = {NODE: main, "spec/application": {"containers": given, "wrap": "always"}, **DVM}
    found = job("virtual", changes)
    assert found.has_application
    for role, limits in ((found.worker, {"example.com/gpu": 1}), (found.launcher, {})):
        spec = role.template["spec"]
        runtime, first, second = spec["containers"]
        env = {one["name"]: one["value"] for one in runtime["env"]}
        assert (env["MPI_WRAP_CONTAINER"], env["PRTE_MCA_odls_base_exec_agent"]) == ("app", "/usr/local/bin/mpi-wrap")
        assert {one["mountPath"] for one in runtime["volumeMounts"]} >= {"/run/mpi-app", "/usr/local/bin/mpi-wrap"}
        assert first["command"] == ["/run/mpi-app/mpi-runner", "--socket", "/run/mpi-app/app.sock"]
        assert first["securityContext"] == runtime["securityContext"] == {"runAsUser": 7, "runAsGroup": 7}
        assert second["securityContext"] == {"runAsUser": 8, "runAsGroup": 7}
        assert first["resources"] == {"limits": limits}
        assert {"name": "PMIX_SERVER_TMPDIR", "value": "/mine"} in second["env"]
        assert {"/dev/shm", "/run/mpi-app"} <= {one["mountPath"] for one in first["volumeMounts"]}
        assert (DVM_PATH in {one["mountPath"] for one in first["volumeMounts"]}) == (role is found.launcher)
        assert "mpi-agents-app" in {one["name"] for one in spec["volumes"]}


def test_of_the_runtime_s_rights_an_application_container_has_none() -> None:
    kept = {
        "runAsUser": 7,
        "runAsGroup": 8,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "allowPrivilegeEscalation": False,
    }
    wide = {"privileged": True, "readOnlyRootFilesystem": True, "procMount": "Unmasked"}
    for capabilities, left in (({"drop": ["ALL"], "add": ["SYS_ADMIN"]}, {"drop": ["ALL"]}), ({"add": ["X"]}, None)):
        context = {**kept, **wide, "capabilities": capabilities}
        main = {"name": "mpi", "image": "example/mpi", "securityContext": context}
        _, found = job("virtual", {NODE: main, **application({})}).worker.template["spec"]["containers"]
        assert found["securityContext"] == kept | ({"capabilities": left} if left else {})
    main["securityContext"] = {
        "runAsUser": 7,
        "allowPrivilegeEscalation": True,
        "capabilities": "ALL",
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Unconfined"},
        "seLinuxOptions": {"type": "spc_t", "level": "s0:c1,c2"},
    }
    _, found = job("virtual", {NODE: main, **application({})}).worker.template["spec"]["containers"]
    assert found["securityContext"] == {"runAsUser": 7, "runAsGroup": 7, "seLinuxOptions": {"level": "s0:c1,c2"}}


def test_ranks_name_mpi_wrap_by_default() -> None:
    env = job("virtual", application({})).worker.template["spec"]["containers"][0]["env"]
    assert {one["name"] for one in env} == {"PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "PRTE_MCA_prte_tmpdir_base"}


def test_what_a_container_mounts_at_dev_shm_stays() -> None:
    mounts = [{"name": "mine", "mountPath": "/dev/shm/"}]
    found = job("virtual", {f"{NODE}/volumeMounts": mounts})
    assert only(found.worker.template)["volumeMounts"] == mounts


def test_settings_may_be_annotations() -> None:
    found = job("virtual", annotated(transport="ssh", ssh_port="2200", worker_agent="false"))
    assert (found.transport, found.ssh.port, found.worker_agent) == (Transport.SSH, 2200, "false")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"apiVersion": "mpi-agents.io/v1"}, "apiVersion: must be mpi-agents.io/v1alpha1"),
        ({"metadata/name": ABSENT}, "metadata.name: is required"),
        (
            {"metadata/name": "a" * 57},
            f'metadata.name: is 1 too long: "{"a" * 57}-node-1" is a host name, of at most 63',
        ),
        ({"spec/nodes": ABSENT}, "spec.nodes: is required"),
        ({"spec/nodes": []}, "spec.nodes: must be an object, not a list"),
        ({"spec/nodes/replicas": 0}, "spec.nodes.replicas: must be 1 or more, not 0"),
        ({"spec/nodes/replicas": "2"}, "spec.nodes.replicas: must be a whole number, not text"),
        ({"spec/nodes/replicas": 5001}, "spec.nodes.replicas: must be at most 5000"),
        ({"spec/nodes/slots": 0}, "spec.nodes.slots: must be 1 or more, not 0"),
        ({"spec/nodes/template": ABSENT}, "spec.nodes.template.spec.containers: must have at least one container"),
        ({f"{NODE}/name": ABSENT}, "spec.nodes.template.spec.containers[0].name: is required"),
        ({"spec/login": 1}, "spec.login: must be an object, not the number 1"),
        ({"spec/login/template": 1}, "spec.login.template: must be an object, not the number 1"),
        ({"spec/login/template": {}}, "spec.login.template.spec.containers: must have at least one container"),
        ({"spec/dvm": True}, "spec.dvm: must be an object, not true"),
        ({"spec/dvm/enabled": "yes"}, "spec.dvm.enabled: must be true or false, not text"),
        ({"spec/dvm/args": "--x"}, "spec.dvm.args: must be a list, not text"),
        ({"spec/dvm/args": [1]}, "spec.dvm.args[0]: must be text, not the number 1"),
        (
            {**DVM, "spec/login/template": {"spec": {"containers": [{"name": "shell", "command": ["/a"]}]}}},
            'spec.dvm.enabled: starts prte in container "shell" of the login pod, which has a command of its own: '
            "remove one of them",
        ),
        ({"spec/sharedMemory": "much"}, "spec.sharedMemory: must be a quantity, as 500m or 2Gi"),
        ({"spec/sharedMemory": [1]}, "spec.sharedMemory: must be text, not a list"),
        ({"spec/sharedMemory": "-1Gi"}, "spec.sharedMemory: must be 0 or more"),
        ({"spec/application": []}, "spec.application: must be an object, not a list"),
        ({"spec/application": {}}, "spec.application.containers: must have at least one container"),
        ({"spec/application/containers": "app"}, "spec.application.containers: must be a list, not text"),
        (
            {"spec/application": {"containers": [APP], "wrap": "never"}},
            'spec.application.wrap: must be explicit or always, not "never"',
        ),
        *((application({key: value}), f"spec.application.containers[0]{problem}") for key, value, problem in WRONG),
        (
            {"spec/application/containers": [APP, APP]},
            'spec.application.containers[1].name: "app" is there already: each container of a pod has its own name',
        ),
        (
            {"spec/application/containers": [APP], "spec/nodes/template/spec/initContainers": [APP]},
            'spec.application.containers[0].name: "app" is there already: each container of a pod has its own name',
        ),
        ({"spec/suspend": "no"}, "spec.suspend: must be true or false, not text"),
        ({"spec/mainContainer": "x"}, 'spec.mainContainer: "x" is none of the nodes\': mpi'),
    ],
)
def test_what_is_wrong_is_said_once_with_its_path(changes: Object, expected: str) -> None:
    assert problems(mpijob("virtual", changes)) == [expected]
