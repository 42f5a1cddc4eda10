"""`mpi-playground render`: what the operator would make, as YAML."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from mpijobs import mpijob

from agents.playground import documents
from agents.playground.cli import main
from agents.playground.documents import DocumentError
from agents.playground.render import render as rendered
from tests import yamls

if TYPE_CHECKING:
    from pathlib import Path

JOBS = os.path.join(os.path.dirname(__file__), "jobs", "t9k")
PLAIN = "v2beta1", {"metadata/namespace": "mine", "metadata/uid": "9-9"}


def written(folder: Path, *documents: Any) -> str:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def render(files: list[str], **how: Any) -> str:
    return rendered(documents.read(files), **how)


def kinds(text: str) -> list[str]:
    return [f"{one['kind']}/{one['metadata']['name']}" for one in yamls.load_all(text)]


def test_objects_of_a_t9k_job_under_its_line() -> None:
    text = render([os.path.join(JOBS, "manual-horovod.yaml")])
    line = "# mpirun --hostfile /etc/mpi/hostfile --mca btl '^openib' --mca pml ob1 python train.py"
    assert text.splitlines()[0] == line
    assert kinds(text) == [
        *("ConfigMap/mpi-example-config", "Secret/mpi-example-ssh", "Service/mpi-example"),
        *("Pod/mpi-example-worker-0", "Pod/mpi-example-launcher"),
    ]
    secret, launcher = list(yamls.load_all(text))[1], list(yamls.load_all(text))[-1]
    assert not {"data", "stringData"} & secret.keys()
    starter = ["/run/mpi-agents/ssh/sshd-start", "--when-ready"]
    assert launcher["spec"]["containers"][0]["command"] == [*starter, *shlex.split(line.removeprefix("# "))]
    assert "&id" not in text


@pytest.mark.parametrize(("version", "kind"), [("v1", "Pod"), ("v2beta1", "Job")])
def test_objects_of_kubeflows_jobs(tmp_path: Path, version: str, kind: str) -> None:
    text = render([written(tmp_path, mpijob(version, {"spec/transport": "exec"}))])
    assert text.startswith("---\n")
    assert kinds(text) == [
        *("ConfigMap/pi-config", "Service/pi", "ServiceAccount/pi-launcher", "Role/pi-launcher"),
        *("RoleBinding/pi-launcher", "Pod/pi-worker-0", "Pod/pi-worker-1", f"{kind}/pi-launcher"),
    ]


def test_what_a_job_names_is_kept_and_the_rest_made_up(tmp_path: Path) -> None:
    named = next(yamls.load_all(render([written(tmp_path, mpijob(*PLAIN))])))["metadata"]
    assert (named["namespace"], named["ownerReferences"][0]["uid"]) == ("mine", "9-9")
    made = next(yamls.load_all(render([os.path.join(JOBS, "manual-pause.yaml")], namespace="x")))["metadata"]
    assert (made["namespace"], len(made["ownerReferences"][0]["uid"])) == ("x", 36)


def test_paused_and_resumed() -> None:
    path = os.path.join(JOBS, "generation-3-launcher.yaml")
    assert render([path], is_resumed=True).splitlines()[0] == render([path]).splitlines()[0] + " --resume"
    first, _, _ = render([os.path.join(JOBS, "manual-pause.yaml")]).partition("\n")
    assert first == "# mpi-example is paused: it has none of these until it is resumed."


def test_gang_scheduler(tmp_path: Path) -> None:
    assert "PodGroup/pi" in kinds(render([written(tmp_path, mpijob("v2beta1"))], gang_scheduler="volcano"))


def test_long_lines_stay_comments(tmp_path: Path) -> None:
    text = render([written(tmp_path, mpijob("t9k", {"spec/worker/cmd": ["sh", "-c", "a\nb: c"]}))])
    assert text.splitlines()[:2] == ["# mpirun --hostfile /etc/mpi/hostfile sh -c 'a", "# b: c'"]
    assert len(kinds(text)) == 6


def test_several_files_and_what_else_is_in_them(tmp_path: Path) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    path = written(tmp_path, other, None, mpijob("v1"), mpijob("t9k", {"metadata/name": "two"}))
    found = kinds(render([path]))
    assert {"ConfigMap/pi-config", "ConfigMap/two-config"} < {*found}
    assert "ConfigMap/mine" not in found


def test_problems_are_a_line_each(tmp_path: Path) -> None:
    bad = mpijob("t9k", {"spec/worker/replicas": 0, "spec/worker/cmd": []})
    path = written(tmp_path, bad, mpijob("v1", {"metadata": None}))
    with pytest.raises(DocumentError) as caught:
        render([path])
    assert caught.value.lines == (
        f"{path}: job pi: spec.worker.replicas: must be 1 or more, not 0",
        f"{path}: job pi: spec.worker.cmd: is required: the program that mpirun starts (unless the job is debugged)",
        f"{path}: job (without a name): metadata.name: is required",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is no YAML: "),
        ("\xff", "can't be read: 'utf-8' codec"),
        ("[" * 1000, "is nested too deeply"),
        ("kind: MPIJob\napiVersion: kubeflow.org/v1\nspec: &a {b: *a}", "is YAML that JSON can't say: Circular"),
        ("- 1", "a manifest is a mapping"),
        ("{kind: ConfigMap, metadata: 7}", "a manifest is a mapping"),
        ("kind: MPIJob\napiVersion: kubeflow.org/v1\n2026-01-01: {}", "is YAML that JSON can't say: keys must be"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DocumentError) as caught:
        render([str(path)])
    [line] = caught.value.lines
    assert line.startswith(f"{path}: {words}")
    assert "\n" not in line


def test_objects_of_a_list_are_read_one_by_one(tmp_path: Path) -> None:
    """As `kubectl get -o yaml` prints several."""
    jobs = [mpijob("v1", {"metadata/name": name}) for name in ("first", "second")]
    (tmp_path / "x").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": jobs}))
    assert [job.name for job in documents.jobs(documents.read([str(tmp_path / "x")]))] == ["first", "second"]


@pytest.mark.parametrize("text", ["a: b", "", "---\n---\n{kind: A}\n---\n", "kind: 2026-01-01"])
def test_files_without_a_job(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(DocumentError, match=r"neither an MPIJob nor a VirtualCluster is in the files"):
        render([str(tmp_path / "x")])


@pytest.mark.parametrize("name", ["render", "apply"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "FILE: is no YAML: "),
        (
            "{apiVersion: v1, kind: Node}",
            "neither an MPIJob nor a VirtualCluster is in the files",
        ),
        (json.dumps(mpijob("t9k", {"spec/mpiHome": "usr"})), "FILE: job pi: spec.mpiHome: must be an absolute path"),
        (json.dumps(mpijob("v1", {"spec/mpiReplicaSpecs/Worker/replicas": -1})), "FILE: job pi: "),
    ],
)
def test_all_commands_say_the_same_of_a_file(
    tmp_path: Path, name: str, text: str, words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    monkeypatch.setattr("sys.argv", ["mpi-playground", name, "-f", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("mpi-playground: " + words.replace("FILE", str(path)))
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["FILE"], ["-f", "FILE"], ["--filename", "FILE"], ["-"], ["-f", "-"]])
def test_a_file_as_an_argument_as_an_option_and_as_stdin(words: list[str]) -> None:
    path = os.path.join(JOBS, "manual-debug.yaml")
    with open(path, encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, "-m", "agents.playground", "render", *(path if one == "FILE" else one for one in words)],
            stdin=file,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == render([path])
