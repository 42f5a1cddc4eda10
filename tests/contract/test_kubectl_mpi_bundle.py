"""`kubectl mpi bundle`: all that a bug report needs, and no secret."""

from __future__ import annotations

import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

import yaml
from user_shell import Shell, manifest

from agents.client import MpiClient, bundle
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from agents.playground.cluster import Cluster
    from agents.playground.operated import Operated

SECRET = "hunter2"  # in all that is planted
LOGGED = (
    "epoch 1",
    f"DB_PASSWORD={SECRET}-a",
    f"GET https://me:{SECRET}-b@example.com/data?token={SECRET}-c",
    f'{{"api_key": "{SECRET} d"}}',
    f"Authorization: Bearer {SECRET}-e",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    f"{SECRET}f",
    "-----END OPENSSH PRIVATE KEY-----",
)


def planted() -> dict[str, Any]:
    """A failing job with secrets wherever people put them."""
    text = "\n".join(LOGGED)
    job: dict[str, Any] = yaml.safe_load(
        manifest("leaks", "sh", "-c", f"cat <<'E'\n{text}\nE\nexit 3", "--token", f"{SECRET}-g")
    )
    job["metadata"]["annotations"] |= {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"anything": f"{SECRET}-h"}),
        "example.com/api-token": f"{SECRET}-i",
    }
    job["spec"]["runPolicy"]["backoffLimit"] = 0
    container = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["env"] = [
        {"name": "WANDB_API_KEY", "value": f"{SECRET}-j"},
        {"name": "DATABASE", "value": f"postgres://me:{SECRET}-k@db/x"},
        {"name": "SHOWN", "value": "an ordinary value"},
    ]
    return job


def plant_objects(cluster: Cluster, uid: str) -> None:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "leaks", "uid": uid}
    metadata = {"name": "leaks-data", "namespace": "default", "ownerReferences": [owner]}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": f"{SECRET}-l"}})
    cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"x": f"{SECRET}-m"}})
    about = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "leaks", "namespace": "default", "uid": uid}
    event = {"type": "Warning", "reason": "Planted", "message": f"secret={SECRET}-n", "involvedObject": about}
    cluster.create({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "leaks.1"}, **event})


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        opened = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        assert not any(name.startswith("/") for name in opened)
        return {name.partition("/")[2]: file.read().decode() for name, file in opened.items() if file is not None}


def test_a_bundle_has_everything_but_secrets(shell: Shell, operated: Operated, tmp_path: Path) -> None:
    shell.run("submit", "-f", "-", stdin=yaml.safe_dump(planted()))
    shell.run("wait", "leaks", code=1)
    status = json.loads(shell.run("status", "leaks", "-o", "json"))
    plant_objects(operated.cluster, status["summary"]["uid"])
    path = tmp_path / "report.tar.gz"
    assert shell.run("bundle", "leaks", "-o", str(path)) == f"{path}\n"
    assert os.stat(path).st_mode & 0o777 == 0o600
    files = unpacked(path)
    assert [name for name, text in files.items() if SECRET in text] == []
    assert {"job.json", "versions.json", "services.json", "pods/leaks-launcher.json", "LEFT-OUT.txt"} <= {*files}
    assert files["logs/leaks-launcher.mpi.log"].splitlines()[:2] == ["epoch 1", "DB_PASSWORD=[redacted]"]
    assert "an ordinary value" in files["job.json"]
    assert json.loads(files["why.json"])["reason"] == "ExitCode3"
    assert {"group", "name", "level", "what", "remedy"} == {*json.loads(files["doctor.json"])[0]}
    assert "leaks-data" in json.loads(files["config-maps.json"])
    assert "Planted" in files["events.json"]
    assert "versions.json: Kubernetes" not in files["LEFT-OUT.txt"]
    assert "nodes.json" in files
    assert "is there: name another file by -o" in shell.run("bundle", "leaks", "-o", str(path), code=2)
    assert "can't be written" in shell.run("bundle", "leaks", "-o", str(tmp_path / "none" / "x"), code=2)
    shell.run("delete", "leaks")
    assert "no MPIJob" in shell.run("bundle", "leaks", "-o", str(tmp_path / "gone"), code=4)
    assert sorted(os.listdir(tmp_path)) == ["report.tar.gz"]


def test_what_can_not_be_read_is_named(shell: Shell, operated: Operated, tmp_path: Path) -> None:
    shell.run("submit", "-f", "-", stdin=manifest("reads", "sh", "-c", "echo begun; exec sleep 600"))
    shell.run("wait", "reads", "--for", "running")
    until(lambda: "begun" in shell.run("logs", "reads"), "its output")
    reader = Shell(operated.cluster.kubeconfig(operated.cluster.token("get mpijobs", "list pods")))
    reader.run("bundle", "reads", "-o", str(tmp_path / ".a"))
    files = unpacked(tmp_path / ".a")
    assert "pods/reads-worker-1.json" in files
    assert "services.json: services is forbidden" in files["LEFT-OUT.txt"]
    assert "logs/reads-launcher.mpi.log: " in files["LEFT-OUT.txt"]
    shell.run("delete", "reads")


def test_logs_and_all_are_bounded(operated: Operated, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "i=0; while [ $i -lt 3000 ]; do echo line $i of many; i=$((i+1)); done"
    shell.run("submit", "-f", "-", stdin=manifest("long", "sh", "-c", program))
    shell.run("wait", "long")
    monkeypatch.setattr(bundle, "LOG_MAX", 1000)
    with MpiClient(kubeconfig=operated.cluster.kubeconfig()) as client:
        log = dict(client.bundle("long"))["logs/long-launcher.mpi.log"]
        assert len(log) <= 1000
        assert log.startswith("line ")
        assert log.endswith("line 2999 of many\n")
        monkeypatch.setattr(bundle, "SUM_MAX", 20000)
        files = dict(client.bundle("long"))
        assert sum(len(text) for name, text in files.items() if name != "LEFT-OUT.txt") <= 20000
        assert files["LEFT-OUT.txt"].endswith(" and all later files: together they would exceed 0 MiB\n")
    shell.run("delete", "long")
