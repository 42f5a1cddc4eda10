"""`kubectl mpi local --pods containers`: no cluster, but the Docker engine that has the cluster's images."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import docker
import pytest
import yaml

from tests.cluster.images import image
from tests.cluster.local.engine import Engine
from tests.cluster.local.places import Places
from tests.playing import Playground, playing
from tests.privileges import NO_CAPABILITIES
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTAINERS = ("--pods", "containers")
RUN = ("run", "--local", *CONTAINERS, "--no-tag-output")
LABEL = {"label": "mpi-agents.run"}
FOR_EVER = "echo begun; sleep 1000"


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    """The engine that has built the images; DOCKER_HOST names it."""
    places = Places.of()
    if not places.is_cluster_of(os.environ["KUBECONFIG"]):
        pytest.skip("the images are in the engine of a cluster of our own: run this by `make test-cluster`")
    own = Engine(places, print)
    own.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", own.environment["DOCKER_HOST"])
        client = docker.DockerClient(own.environment["DOCKER_HOST"])
        yield client
        client.close()
    own.stop()


@pytest.fixture
def local(tmp_path: Path, engine: docker.DockerClient) -> Iterator[Playground]:
    """The command; once it has ended, nothing of it may be left."""
    with playing(tmp_path, "agents.kubectl_mpi") as playground:
        yield playground
        assert engine.containers.list(all=True, filters=LABEL, ignore_removed=True) == []
        assert engine.networks.list(filters=LABEL) == []
        assert not playground.processes()
        assert os.listdir(playground.temporary) == []


def test_an_example_runs_in_its_images(local: Playground) -> None:
    process = local.start("local", *CONTAINERS, "-f", "examples/kubeflow/pi.yaml")
    assert process.wait(120) == 0, local.errors
    assert "rank 1 of 2 on pi-worker-1" in local.output
    assert "condition pi: Succeeded: " in local.errors


def test_a_job_by_ssh_runs_by_ssh(local: Playground) -> None:
    program = ["sh", "-c", "echo $(hostname) after $(cat /proc/1/comm)"]
    process = local.start(*RUN, image("openmpi4-ssh"), "--name", "job", "--transport", "ssh", "-n", "2", "--", *program)
    assert process.wait(120) == 0, local.errors
    assert sorted(local.output.splitlines()) == ["job-worker-0 after sshd", "job-worker-1 after sshd"]


def test_a_failing_rank_s_code_is_the_command_s(local: Playground) -> None:
    program = ["sh", "-c", 'test "$PMI_RANK" != 1 || exit 3']
    process = local.start(*RUN, image("mpich"), "--mpi", "mpich", "-n", "2", "--", *program)
    assert process.wait(120) == 3, local.errors
    assert "container mpi exited with 3" in local.errors


def test_a_folder_s_files_are_in_all_pods(local: Playground, tmp_path: Path) -> None:
    (tmp_path / "case.in").write_text("a case\n")
    process = local.start(*RUN, image("openmpi4"), "-n", "2", "--sync", str(tmp_path), "--", "cat", "case.in")
    assert process.wait(120) == 0, local.errors
    assert local.output == "a case\n" * 2


def test_a_missing_image_is_said_and_waited_for(local: Playground, engine: docker.DockerClient) -> None:
    wanted = "registry.invalid/cfd:1.3"
    process = local.start(*RUN, wanted, "--name", "cfd", "--mpi", "mpich", "-n", "1", "--", "hostname")
    said = f'pod       cfd-worker-0: ErrImagePull: failed to pull image "{wanted}"'
    until(lambda: said in local.errors, "it is said")
    kubeconfig = local.errors.partition("export KUBECONFIG=")[2].split()[0]
    why = [sys.executable, "-m", "agents.kubectl_mpi", "why", "cfd", "--kubeconfig", kubeconfig]
    told = subprocess.run(why, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "cfd-worker-0 container mpi can't get its image (ErrImagePull)" in told
    engine.images.get(image("mpich")).tag(wanted)
    try:
        assert process.wait(60) == 0, local.errors
    finally:
        engine.images.remove(wanted)
    assert local.output == "cfd-worker-0\n"


def test_an_image_that_lacks_the_program(local: Playground) -> None:
    process = local.start(*RUN, image("bare-static"), "--mpi", "mpich", "-n", "1", "--", "true")
    assert process.wait(120) == 128, local.errors
    assert 'exec: "mpiexec": executable file not found in $PATH' in local.errors


def test_exec_has_a_terminal_of_the_user_s_size(local: Playground) -> None:
    process = local.start(*RUN, image("openmpi4"), "--name", "job", "-n", "1", "--", "sh", "-c", FOR_EVER)
    until(lambda: "begun" in local.output, "the rank runs")
    kubeconfig = local.errors.partition("export KUBECONFIG=")[2].split()[0]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    words = ["exec", "job", "--worker", "0", "--kubeconfig", kubeconfig, "--", "sh", "-c"]
    script = 'until [ "$(stty size)" = "33 101" ]; do sleep 0.1; done; read said; echo "$said, $(hostname)"; exit 7'
    command = [sys.executable, "-m", "agents.kubectl_mpi", *words, script]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL) as shell:
        os.write(ours, b"hello\n")
        assert shell.wait(60) == 7
    said = b""
    while b"hello, job-worker-0\r\n" not in said:
        said += os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, local.errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_removes_all_containers(local: Playground, number: int, code: int) -> None:
    process = local.start(*RUN, image("openmpi4"), "-n", "2", "--", "sh", "-c", FOR_EVER)
    until(lambda: local.output.count("begun") == 2, "the ranks run")
    process.send_signal(number)
    assert process.wait(60) == code, local.errors


def test_a_killed_command_leaves_no_containers(tmp_path: Path, engine: docker.DockerClient) -> None:
    with playing(tmp_path, "agents.kubectl_mpi") as local:
        process = local.start(*RUN, image("openmpi4"), "-n", "1", "--", "sh", "-c", FOR_EVER)
        until(lambda: "begun" in local.output, "the rank runs")
        assert len(engine.containers.list(filters=LABEL, ignore_removed=True)) > 2
        process.kill()
        until(lambda: not engine.containers.list(all=True, filters=LABEL, ignore_removed=True), "no container is left")
        until(lambda: not engine.networks.list(filters=LABEL), "no network is left")


POD = """
initContainers:
- {name: first, image: IMAGE, command: [sh, -c, "echo first >/work/order"], volumeMounts: [WORK]}
- name: sidecar
  image: IMAGE
  restartPolicy: Always
  command: [sh, -c, "echo sidecar >>/work/order; exec sleep 1000"]
  startupProbe: {exec: {command: [grep, sidecar, /work/order]}, periodSeconds: 1}
  volumeMounts: [WORK]
- {name: last, image: IMAGE, command: [sh, -c, "echo last >>/work/order"], volumeMounts: [WORK]}
containers:
- name: mpi
  image: IMAGE
  command: [sh, -c, SCRIPT]
  securityContext: {runAsUser: 1234, runAsGroup: 5678}
  resources: {limits: {memory: 96Mi}}
  env:
  - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  volumeMounts:
  - WORK
  - {name: settings, mountPath: /settings}
  - {name: key, mountPath: /key, subPath: key}
  - {name: claim, mountPath: /data}
  - {name: labels, mountPath: /labels}
  - {name: memory, mountPath: /dev/shm}
volumes:
- {name: work, emptyDir: {}}
- {name: settings, configMap: {name: settings}}
- {name: key, secret: {secretName: key}}
- {name: claim, persistentVolumeClaim: {claimName: results}}
- {name: labels, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
- {name: memory, emptyDir: {medium: Memory, sizeLimit: 128Mi}}
"""
SCRIPT = """
tr '\\n' ' ' </work/order; cat /settings/a /key /labels/name; echo; id -u; id -g; touch /data/result; touch /work/mine
df -m /dev/shm | tail -1 | tr -s ' ' | cut -d ' ' -f 2; hostname -i | grep -qx "$ADDRESS" && echo address
echo out of luck; exit 4
"""


def volumes_job(folder: Path) -> Path:
    """A file with a job of one launcher, whose pod has volumes of all kinds, and with the objects that they show."""
    text = POD.replace("IMAGE", image("openmpi4")).replace("WORK", "{name: work, mountPath: /work}")
    pod = yaml.safe_load(text)
    pod["containers"][0]["command"][2] = SCRIPT
    worker = {"containers": [{"name": "mpi", "image": image("openmpi4"), "command": ["sleep", "1000"]}]}
    roles = {
        "Launcher": {"restartPolicy": "Never", "template": {"spec": pod}},
        "Worker": {"replicas": 1, "template": {"spec": worker}},
    }
    spec = {"runPolicy": {"backoffLimit": 0}, "mpiReplicaSpecs": roles}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "whole"}, "spec": spec}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "set "}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": "secret "}}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all([config, secret, job]))
    return path


SAID = ["first sidecar last set secret whole-launcher", "1234", "5678", "128", "address", "out of luck"]


def test_volumes_users_limits_and_order(local: Playground, tmp_path: Path) -> None:
    """Also without root's power over files: what containers leave is other users'."""
    process = local.start_with(NO_CAPABILITIES, "local", *CONTAINERS, "-f", str(volumes_job(tmp_path)))
    assert process.wait(120) == 4, local.errors
    assert local.output.splitlines() == SAID
    assert "container mpi exited with 4: " in local.errors


def test_claims_stay_in_a_folder(local: Playground, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    process = local.start("local", *CONTAINERS, "--folder", str(kept), "-f", str(volumes_job(tmp_path)))
    assert process.wait(120) == 4, local.errors
    assert os.listdir(kept / "claims" / "default.results") == ["result"]


def test_an_engine_that_can_t_be_used(local: Playground) -> None:
    for where, words in (("unix:///none.sock", "none answers"), ("tcp://127.0.0.1:1", "on this machine")):
        start = ["env", f"DOCKER_HOST={where}"]
        assert local.start_with(start, *RUN, "any", "-n", "1", "--", "true").wait(60) == 1
        assert words in local.errors
        assert len(local.errors.splitlines()) == 1
