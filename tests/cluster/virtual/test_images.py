"""The images of virtual clusters: a runtime, applications without one, and both; by the examples, logged in."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.cluster.images import BENCH_MEM
from tests.cluster.manifests import ONE_MACHINE, set_environ
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.test_images import none_of, run
from tests.cluster.virtual.login import Login

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.kube import Namespace
    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

PRRTE = ("prte", "prterun", "prun", "pterm", "prted")
RUNTIME = (*PRRTE, "mpirun", "mpiexec", "orted", "ssh", "sshd", "podman")
BY_NODE = "prterun --map-by ppr:2:node"


def log_in(submit: Submit, name: str) -> Login:
    """Submit an example, and log in to its launcher."""
    job = MpiJob.of_kubeflow(f"../../../../examples/virtual/{name}.yaml")
    for pod in (job.launcher, job.worker):
        set_environ(pod["containers"][0], ONE_MACHINE)
    return Login(submit(job))


@pytest.mark.parametrize(
    ("image", "program"),
    [
        ("mpi", "init_finalize"),
        ("mpi4", "init_finalize"),
        pytest.param("npb", "cg.A.x", marks=pytest.mark.needs_image("npb")),
        pytest.param("gromacs", "gmx_mpi", marks=pytest.mark.needs_image("gromacs")),
    ],
)
def test_an_application_has_its_libraries_and_no_runtime(namespace: Namespace, image: str, program: str) -> None:
    code, log = run(namespace, image, ["/bin/sh", "-ec", f"{none_of(*RUNTIME)}; ldd $(command -v {program})"])
    assert code == 0, log
    assert re.search(r"libmpi\.so\.40 => /", log)
    assert "not found" not in log


@pytest.mark.parametrize(
    ("image", "more"),
    [
        ("runtime", ()),
        pytest.param("runtime-podman", ("podman", "crun"), marks=pytest.mark.needs_image("runtime-podman")),
    ],
)
def test_a_runtime_has_its_commands_and_no_application(namespace: Namespace, image: str, more: tuple[str, ...]) -> None:
    commands = " ".join((*PRRTE, "ssh", "sshd", *more))
    text = f"{none_of('init_finalize', 'pi')}; for program in {commands}; do command -v $program; done; prterun -V"
    code, log = run(namespace, image, ["/bin/sh", "-ec", text])
    assert code == 0, log
    assert "prterun (PRRTE) 3." in log


def test_init_finalize_tells_sizes_and_seconds(submit: Submit) -> None:
    output = log_in(submit, "init-finalize").run(f"{BY_NODE} init_finalize 2>&1")
    lines = re.findall(r"^(?:mpi|finalize_s)=.*", output, re.MULTILINE)  # others are the runtime's
    told = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', " ".join(lines)))
    sizes = {name: told.pop(name, "") for name in ("mpi", "size", "nodes", "ppn")}
    assert sizes == {"mpi": '"Open MPI v5.0.7"', "size": "4", "nodes": "2", "ppn": "2"}, output
    assert told.keys() == {"init_s", "barrier_s", "finalize_s"}, output
    assert all(float(seconds) > 0 for seconds in told.values()), output


@pytest.mark.needs_image("npb-runtime")
def test_kernels_verify_their_results(submit: Submit) -> None:
    """One that hardly communicates, and one that does little else."""
    login = log_in(submit, "npb")
    for kernel in ("ep", "cg"):
        output = login.run(f"{BY_NODE} {kernel}.A.x 2>&1")
        assert re.search(r"Total processes = +4\b", output), output
        assert re.search(r"Verification += +SUCCESSFUL", output), output


@pytest.mark.skipif(not BENCH_MEM.exists(), reason=f"there is no {BENCH_MEM}, which GROMACS simulates here")
@pytest.mark.needs_image("gromacs-runtime")
def test_gromacs_simulates_a_membrane(submit: Submit, kubectl: Callable[[str], str], tmp_path: Path) -> None:
    login = log_in(submit, "gromacs")
    with zipfile.ZipFile(BENCH_MEM) as archive:
        given = archive.extract("benchMEM.tpr", tmp_path)
    for worker in login.workers:
        kubectl(f"kubectl -n {login.namespace.name} cp {given} {worker}:/tmp/benchMEM.tpr")
    output = login.run(f"{BY_NODE} --wdir /tmp gmx_mpi mdrun -s benchMEM.tpr -nsteps 10 -ntomp 1 -reprod 2>&1")
    assert "Using 4 MPI processes" in output
    assert re.search(r"^10 steps, ", output, re.MULTILINE), output
    log = login.namespace.exec_in(login.workers[0], ["cat", "/tmp/md.log"], "mpi")  # the first rank's
    assert "Finished mdrun" in log.output
