"""The example jobs: kubeflow's and T9k's show what their comments say, those by exec are one job written five times."""

from __future__ import annotations

import difflib
import glob
import os
import re
import shlex
from typing import Any

import pytest
from mpijobs import read_job

from agents.job.model import LAUNCHER, Job, Transport
from agents.job.run_mode import effective
from images.catalog import IMAGES, version
from tests import yamls

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
NAMES = sorted(
    os.path.relpath(path, FOLDER) for kind in ("kubeflow", "t9k") for path in glob.glob(f"{FOLDER}/{kind}/*")
)
BY_EXEC = sorted(name.removesuffix(".yaml") for name in os.listdir(os.path.join(FOLDER, "exec")))
FIRST = "openmpi4"
OWN = (
    re.compile(r"\A.*:", re.MULTILINE),  # the title's name of the MPI
    re.compile(r"^    \S+-worker-\d.*\n", re.MULTILINE),  # the hostfile
    re.compile(r"^    command: \[(mpirun|mpiexec|horovodrun),(.*\n)*?(?=    securityContext:)", re.MULTILINE),
    # The last of a worker: only Open MPI's daemon wants to see the agent there.
    re.compile(r"^        volumeMounts:\n.*/etc/mpi.*\n      volumes:\n(.*\n)*\Z", re.MULTILINE),
)


def common(name: str) -> list[str]:
    """An example's lines except what is its launcher's own, with the first one's names."""
    with open(os.path.join(FOLDER, "exec", f"{name}.yaml"), encoding="utf-8") as file:
        text = file.read()
    for part in OWN:
        text = part.sub("", text)
    text = re.sub(r"\b(mpiexec|horovodrun)\b", "mpirun", text)
    return re.sub(r"\btrain\b", "pi", text).replace(name, FIRST).splitlines()


def test_there_is_one_for_each_launcher() -> None:
    assert BY_EXEC == ["horovod", "intel", "mpich", "openmpi4", "openmpi5"]


@pytest.mark.parametrize("name", [name for name in BY_EXEC if name != FIRST])
def test_examples_differ_by_their_launchers_alone(name: str) -> None:
    assert [*difflib.unified_diff(common(FIRST), common(name), FIRST, name, lineterm="", n=0)] == []


def test_little_is_left_out_of_that() -> None:
    assert len(common(FIRST)) > 150


def example(name: str) -> Job:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        resource: dict[str, Any] = yamls.load(file)
    resource["metadata"] |= {"namespace": "default", "uid": "1-2"}
    return read_job(resource)


def images(job: Job) -> set[str]:
    return {one["image"] for role in (job.launcher, job.worker) for one in role.template["spec"]["containers"]}


@pytest.mark.parametrize("name", NAMES)
def test_none_of_their_names_is_ignored(name: str) -> None:
    assert example(name).ignored == ()


@pytest.mark.parametrize("name", NAMES)
def test_images_are_ours(name: str) -> None:
    found = example(name)
    [image] = images(found)
    assert image in {one.tag(version()) for one in IMAGES.values()}
    assert ("ssh" in image) is (name.startswith("t9k/") and found.transport is Transport.SSH)


def test_all_of_t9ks_ways_have_one() -> None:
    assert {name for name in NAMES if name.startswith("t9k")} == {
        f"t9k/{name}.yaml" for name in ("pi", "generation-3", "exec", "debug", "pause")
    }


def test_generations_mean_the_same() -> None:
    second, third = example("t9k/pi.yaml"), example("t9k/generation-3.yaml")
    assert (second.worker.replicas, second.slots, second.policy) == (third.worker.replicas, third.slots, third.policy)
    requests = [
        role.template["spec"]["containers"][0]["resources"]["requests"] for role in (third.launcher, third.worker)
    ]
    assert requests == [{"cpu": "50m", "memory": "64Mi"}, {"cpu": "100m", "memory": "64Mi"}]


def test_debugging_and_pausing() -> None:
    debugged, paused = example("t9k/debug.yaml"), example("t9k/pause.yaml")
    assert debugged.debug is not None
    assert not paused.policy.is_suspended
    assert LAUNCHER in paused.resume
    before, after = (shlex.join(effective(paused, is_resumed=one).launch_command) for one in (False, True))
    assert before == "mpirun --hostfile /etc/mpi/hostfile -N 2 --allow-run-as-root pi 600"
    assert after == "mpirun --hostfile /etc/mpi/hostfile -N 2 --allow-run-as-root pi 5"
