"""`run --sync`: which files of a folder are packed, and how a job's pods get them."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from agents.client import ManifestError, sync

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_packed(tmp_path: Path) -> None:
    for name in ("a/b/c.py", ".git/config", "a/__pycache__/c.pyc", "a/.env", ".ssh/id_rsa", "id_rsa"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "run").write_text("#!/bin/sh")
    (tmp_path / "run").chmod(0o755)
    os.link(tmp_path / "run", tmp_path / "run2")
    os.symlink("a/b", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with tarfile.open(fileobj=io.BytesIO(sync.packed(str(tmp_path)))) as tar:
        assert sorted(tar.getnames()) == ["a", "a/b", "a/b/c.py", "link", "run", "run2"]
        assert (tar.getmember("run").mode, tar.getmember("run").uid) == (0o755, 0)
        assert tar.getmember("link").linkname == "a/b"
        opened = tar.extractfile("run2")
        assert opened is not None
        assert opened.read() == b"#!/bin/sh"


def test_what_can_not_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ManifestError, match="none is no folder"):
        sync.packed(str(tmp_path / "none"))
    (tmp_path / "zeros").write_bytes(bytes(100_000))  # packed they are small
    monkeypatch.setattr(sync, "WHOLE_MOST", 50_000)
    with pytest.raises(ManifestError, match="is too large"):
        sync.packed(str(tmp_path))


def job(**container: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "mpi", "image": "app", **container}, {"name": "other"}]}}
    roles = {"Launcher": {"template": template}, "Worker": {"replicas": 2, "template": template}}
    return {"kind": "MPIJob", "metadata": {"name": "pi"}, "spec": {"mpiReplicaSpecs": roles}}


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
@pytest.mark.parametrize(("given", "folder"), [({}, "/workspace"), ({"workingDir": "/home/me"}, "/home/me")])
def test_a_pod_gets_the_files(role: str, given: dict[str, str], folder: str) -> None:
    resources = {"limits": {"cpu": "1"}}
    spec = sync.mounted(job(resources=resources, **given))["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]
    main, other = spec["containers"]
    assert main["workingDir"] == folder
    assert [one["mountPath"] for one in main["volumeMounts"]] == [folder]
    assert other == {"name": "other"}
    (unpack,) = spec["initContainers"]
    assert (unpack["image"], unpack["resources"], unpack["command"][-1]) == ("app", resources, folder)
    assert spec["volumes"][1]["configMap"] == {"name": "pi-files"}


def test_the_main_container_may_be_another_one() -> None:
    given = job()
    given["spec"] |= {"mainContainer": "other"}
    given["spec"]["mpiReplicaSpecs"]["Wroker"] = {}
    roles = sync.mounted(given)["spec"]["mpiReplicaSpecs"]
    for role in ("Launcher", "Worker"):
        first, main = roles[role]["template"]["spec"]["containers"]
        assert first == {"name": "mpi", "image": "app"}
        assert main["workingDir"] == sync.FOLDER
    assert roles["Wroker"] == {}


def test_other_jobs_get_none() -> None:
    with pytest.raises(ManifestError, match="kubeflow MPIJob with a name"):
        sync.mounted({"kind": "MPIJob", "metadata": {"generateName": "pi-"}, "spec": job()["spec"]})
    with pytest.raises(ManifestError, match="kubeflow MPIJob with a name"):
        sync.mounted({"kind": "MPIJob", "metadata": {"name": "pi"}, "spec": {"worker": {}}})
