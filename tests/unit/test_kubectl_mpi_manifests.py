"""Jobs made of options, or of a job that was there: what `run` and `rerun` create."""

from __future__ import annotations

from typing import Any

import pytest
from mpijobs import ABSENT, annotated, mpijob, read_job

from agents.client import manifests
from agents.client.errors import ManifestError
from agents.client.manifests import Options, again, name_of, named, new_job, next_name
from agents.common import plain
from agents.job.model import Dialect, Implementation, Job, Transport
from agents.job.tags import OPTIONS

Object = dict[str, Any]


def made(**given: Any) -> Object:
    return new_job(Options(**{"name": "x", "image": "img", "command": ("pi",), "ranks": 4, **given}))


def read_(body: Object) -> Job:
    return read_job({**body, "metadata": {"namespace": "default", "uid": "1", **body["metadata"]}})


def main(body: Object, role: str) -> Object:
    return dict(body["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0])


@pytest.mark.parametrize(
    ("given", "workers", "slots"),
    [
        ({}, 4, 1),
        ({"workers": 2}, 2, 2),
        ({"workers": 3}, 3, 2),
        ({"slots": 3}, 2, 3),
        ({"gpus": 2}, 2, 2),
        ({"workers": 4, "slots": 8}, 4, 8),
    ],
)
def test_workers_and_slots_fit_the_ranks(given: Object, workers: int, slots: int) -> None:
    job = read_(made(**given))
    assert (job.worker.replicas, job.slots) == (workers, slots)


def test_ranks_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ManifestError, match="4 ranks don't fit onto 1 workers with 3 slots each"):
        made(workers=1, slots=3)


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({}, ["mpirun", "-n", "4", "--tag-output", "pi"]),
        ({"tags_output": False}, ["mpirun", "-n", "4", "pi"]),
        ({"env": {"A": "b"}}, ["mpirun", "-n", "4", "--tag-output", "-x", "A", "pi"]),
        ({"command": ("/opt/bin/mpirun", "-n", "2", "pi")}, ["/opt/bin/mpirun", "-n", "2", "pi"]),
        (
            {"implementation": Implementation.MPICH, "env": {"A": "b"}},
            ["mpiexec", "-n", "4", *OPTIONS[Implementation.MPICH], "pi"],
        ),
        # Kubernetes makes $$ a dollar sign, and replaces $(NAME).
        (
            {"command": ("sh", "-c", "$HOME $$ $(id)")},
            ["mpirun", "-n", "4", "--tag-output", "sh", "-c", "$HOME $$$$ $$(id)"],
        ),
        ({"command": ("sh", "-c", "$HOME")}, ["mpirun", "-n", "4", "--tag-output", "sh", "-c", "$HOME"]),
    ],
)
def test_the_launchers_command(given: Object, command: list[str]) -> None:
    assert main(made(**given), "Launcher")["command"] == command


def test_every_option_has_its_field() -> None:
    body = made(
        cpu="4",
        memory="8Gi",
        gpus=1,
        shm="2Gi",
        env={"A": "b"},
        volumes={"/data": "claim"},
        secrets={"/keys": "key"},
        queue="gpu",
        priority="high",
        time_s=60,
        transport=Transport.SSH,
    )
    job = read_(body)
    worker, spec = main(body, "Worker"), body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert worker["resources"]["limits"] == {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}
    assert worker["resources"]["requests"] == worker["resources"]["limits"]
    assert [mount["mountPath"] for mount in worker["volumeMounts"]] == ["/data", "/keys", "/dev/shm"]
    assert [next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]] == [
        "persistentVolumeClaim",
        "secret",
        "emptyDir",
    ]
    assert spec["priorityClassName"] == "high"
    assert worker["env"] == [{"name": "A", "value": "b"}]
    assert {"name": "A", "value": "b"} in main(body, "Launcher")["env"]
    assert body["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpu"}
    assert (job.policy.active_deadline_s, job.transport) == (60, Transport.SSH)
    launcher = main(body, "Launcher")
    assert "resources" not in launcher
    assert [mount["mountPath"] for mount in launcher["volumeMounts"]] == ["/data", "/keys"]


@pytest.mark.parametrize("given", [{"spec/mainContainer": "mpi"}, annotated(main_container="mpi")])
def test_a_templates_main_container_need_not_be_its_first(given: Object) -> None:
    containers = [{"name": "proxy", "image": "envoy"}, {"name": "mpi", "image": "old"}]
    changes = {"spec/mpiReplicaSpecs/Worker/template/spec/containers": containers}
    spec = made(template=mpijob("v1", {**changes, **given}))["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert spec["containers"] == [containers[0], {"name": "mpi", "image": "img"}]


def test_aliases_of_aliases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MOST", 100_000)
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 100)}]" for n in range(1, 6))]
    with pytest.raises(ManifestError, match="JSON can't express: its aliases make it larger"):
        manifests.read("job.yaml", "\n".join(["metadata: {}", *lines]))


@pytest.mark.parametrize("version", [Dialect.V1, Dialect.V2BETA1])
def test_a_failed_launcher_is_kept_for_its_output(version: Dialect) -> None:
    body = new_job(Options("x", "img", ["pi"], 1), version)
    assert body["apiVersion"] == f"kubeflow.org/{version}"
    assert body["spec"]["runPolicy"]["backoffLimit"] == 0
    assert body["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] == "Never"


def test_a_template_holds_where_nothing_is_said() -> None:
    worker = "spec/mpiReplicaSpecs/Worker/template/spec"
    template = mpijob(
        "v2beta1",
        {
            f"{worker}/nodeSelector": {"disk": "fast"},
            f"{worker}/containers/0/env": [{"name": "A", "value": "old"}, {"name": "B", "value": "2"}],
            f"{worker}/containers/0/resources": {"limits": {"memory": "1Gi", "rdma/hca": "1"}},
            "spec/runPolicy": {"ttlSecondsAfterFinished": 60},
            "metadata/labels": {"team": "cfd"},
        },
    )
    body = made(template=template, env={"A": "new"}, memory="2Gi")
    assert body["apiVersion"] == "kubeflow.org/v2beta1"
    assert body["metadata"]["labels"] == {"team": "cfd"}
    pod = body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disk": "fast"}
    assert pod["containers"][0]["env"] == [{"name": "B", "value": "2"}, {"name": "A", "value": "new"}]
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "2Gi", "rdma/hca": "1"}
    assert body["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 60
    assert template["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2  # the template is left as it is


LARGE = {
    "spec/slotsPerWorker": 8,
    "spec/mpiReplicaSpecs/Worker/replicas": 4,
    "spec/mpiImplementation": "Intel",
    "metadata/annotations": {"mpi-agents/transport": "ssh", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
}


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_a_templates_size_mpi_and_transport_hold_where_no_option_is_given(version: str) -> None:
    body = made(template=mpijob(version, LARGE), ranks=32)
    job = read_(body)
    assert (job.worker.replicas, job.slots) == (4, 8)
    assert (job.implementation, job.transport) == (Implementation.INTEL, Transport.SSH)
    assert main(body, "Launcher")["command"][0] == "mpiexec"
    assert body["metadata"]["annotations"] == {"mpi-agents/transport": "ssh", "mpi-agents/tag-output": "true"}


@pytest.mark.parametrize(("option", "is_tagged"), [(None, False), (True, True), (False, False)])
def test_output_is_tagged_unless_the_template_or_an_option_says_otherwise(option: bool | None, is_tagged: bool) -> None:
    body = made(template=mpijob("v1", {"spec/tagOutput": False}), tags_output=option)
    assert read_(body).tags_output is is_tagged
    assert ("--tag-output" in main(body, "Launcher")["command"]) is is_tagged


def test_options_win_over_a_template() -> None:
    annotations = {"mpi-agents/mpi-implementation": "MPICH", "mpi-agents/transport": "ssh"}
    template = mpijob("v1", LARGE | {"metadata/annotations": annotations})
    given = {"workers": 2, "slots": 16, "implementation": Implementation.OPEN_MPI, "transport": Transport.EXEC}
    job = read_(made(template=template, ranks=32, **given))
    assert (job.worker.replicas, job.slots) == (2, 16)
    assert (job.implementation, job.transport) == (Implementation.OPEN_MPI, Transport.EXEC)


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_what_neither_options_nor_template_say_is_the_default(version: str) -> None:
    job = read_(made(template=mpijob(version, {"spec/mpiReplicaSpecs/Worker/replicas": ABSENT})))
    assert (job.worker.replicas, job.slots) == (4, 1)
    assert (job.implementation, job.transport) == (Implementation.OPEN_MPI, Transport.EXEC)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (LARGE, "64 ranks don't fit onto 4 workers with 8 slots each"),
        ({"spec/slotsPerWorker": "8"}, "the template: spec.slotsPerWorker: must be a whole number"),
    ],
)
def test_a_template_that_does_not_fit_is_an_error(changes: Object, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        made(template=mpijob("v1", changes), ranks=64)


def test_a_launcher_that_is_a_host_takes_ranks_too() -> None:
    template = mpijob("v2beta1", LARGE | {"spec/runLauncherAsWorker": True})
    assert read_(made(template=template, ranks=40)).worker.replicas == 4


def test_volumes_of_options_stand_beside_a_templates() -> None:
    path = "spec/mpiReplicaSpecs/Worker/template/spec"
    template = mpijob("v1", {f"{path}/volumes": [{"name": "volume-0", "emptyDir": {}}]})
    container = template["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "volume-0", "mountPath": path} for path in ("/data", "/tmp")]
    body = made(template=template, volumes={"/data": "claim", "/more": "other"})
    volumes = body["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"]
    assert [one["name"] for one in volumes] == ["volume-0", "volume-1", "volume-2"]
    assert {one["mountPath"]: one["name"] for one in main(body, "Worker")["volumeMounts"]} == {
        "/tmp": "volume-0",
        "/data": "volume-1",
        "/more": "volume-2",
    }
    assert len(main(body, "Worker")["volumeMounts"]) == 3


def test_a_template_of_another_kind_is_an_error() -> None:
    with pytest.raises(ManifestError, match="must be an MPIJob of kubeflow"):
        made(template=mpijob("t9k"))


def test_a_job_again_has_nothing_of_the_first_ones_life() -> None:
    first = mpijob(
        "v1",
        {
            "metadata/labels": {
                "kueue.x-k8s.io/queue-name": "gpu",
                "kueue.x-k8s.io/priority-class": "high",
                "kueue.x-k8s.io/prebuilt-workload-name": "w",
                "argocd.argoproj.io/instance": "app",
                "app.kubernetes.io/managed-by": "Helm",
            },
            "metadata/annotations": {
                "mpi-agents/transport": "ssh",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "argocd.argoproj.io/tracking-id": "app:kubeflow.org/MPIJob:default/pi",
                "meta.helm.sh/release-name": "app",
            },
            "metadata/resourceVersion": "7",
            "metadata/finalizers": ["x"],
            "status": {"conditions": []},
        },
    )
    body = again(first, "pi-2")
    assert body["metadata"] == {
        "name": "pi-2",
        "labels": {"kueue.x-k8s.io/queue-name": "gpu", "kueue.x-k8s.io/priority-class": "high"},
        "annotations": {"mpi-agents/transport": "ssh"},
    }
    assert again(mpijob("v1"), "pi-2")["metadata"] == {"name": "pi-2"}
    assert set(body) == {"apiVersion", "kind", "metadata", "spec"}
    assert body["spec"] == first["spec"]


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"name": "pi"}, "pi"),
        ({"generateName": "pi-"}, "pi-00000"),
        ({"generateName": "p" * 70}, f"{'p' * 58}00000"),
        ({"name": "pi", "generateName": "x-"}, "pi"),
        ({}, None),
        ({"generateName": 7}, None),
    ],
)
def test_the_name_that_is_checked(metadata: Object, name: str | None) -> None:
    assert named(metadata).get("name") == name


@pytest.mark.parametrize(
    ("name", "taken", "found"),
    [("pi", [], "pi-2"), ("pi", ["pi-2"], "pi-3"), ("pi-2", ["pi", "pi-2"], "pi-3"), ("run-9", ["run-10"], "run-11")],
)
def test_the_next_name(name: str, taken: list[str], found: str) -> None:
    assert next_name(name, taken) == found


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("pi", "pi-abc"),
        ("/opt/App_2/Solve.X", "solve-x-abc"),
        ("7zip", "run-7zip-abc"),
        ("--", "run-abc"),
        ("x" * 100, f"{'x' * 40}-abc"),
    ],
)
def test_a_name_for_a_program(program: str, name: str) -> None:
    assert name_of(program, "abc") == name
