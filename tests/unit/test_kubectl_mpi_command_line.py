"""How many ranks a launcher's command line asks for, and where they run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest
from mpijobs import job

from agents.client.command_line import Asked, asked_by, places, ranks_of

if TYPE_CHECKING:
    from agents.job.model import Job

CONTAINER = "spec/mpiReplicaSpecs/Launcher/template/spec/containers/0"


def launched(line: str, version: str = "v1", **changes: Any) -> Job:
    """A job with two workers of four slots, whose launcher runs this line."""
    return job(version, {f"{CONTAINER}/command": shlex.split(line), "spec/slotsPerWorker": 4} | changes)


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("mpirun -n 4 pi -n 7", 4),
        ("/usr/bin/mpirun --allow-run-as-root -np 4 pi", 4),
        ("mpirun --np=4 pi", 4),
        ("mpirun --mca btl tcp,self -x A=1 -np 4 pi", 4),
        ("mpiexec -genv A 1 -n 4 pi", 4),
        ("horovodrun --gloo -np 4 --hostfile /etc/mpi/hostfile python train.py", 4),
        ("mpiexec -n 2 a : -n 4 b", 6),
        ("mpiexec -n 2 a : b", None),
        ("mpirun -N 2 pi", 4),
        ("timeout 60 mpirun -n 4 pi", 4),
        ("mpirun pi -n 4", None),
        ("mpirun --unknown 3 -n 4 pi", None),  # whether `3` is the program is not known
        ("mpirun -n $(NP) pi", None),
        ("mpirun -n", None),
        ("python train.py -n 4", None),
        ("sh -c 'cd /x && exec mpirun -n 4 pi > log'", 4),
        ("bash -euo pipefail -c 'which mpirun; A=1 mpirun \\\n -n 4 pi'", 4),
        ("bash -lc 'for i in 1 2; do mpirun -n 4 pi; done'", 4),
        ("sh -c 'mpirun -n 4 a\nmpirun -n 2 b'", None),
        ("sh -c 'mpirun -n $NP a'", None),
        ("sh --norc mpirun -n 4", 4),
        ("sh", None),
        ("", None),
    ],
)
def test_how_many_ranks(line: str, ranks: int | None) -> None:
    assert ranks_of(launched(line)) == ranks


def test_command_and_arguments_are_one_line() -> None:
    changes: dict[str, Any] = {f"{CONTAINER}/args": ["mpirun -n 4 pi"]}
    assert ranks_of(launched("bash -c", **changes)) == 4


def test_t9ks_line_is_made_of_its_fields() -> None:
    assert ranks_of(job("t9k", {"spec/worker/extraMPIArgs": ["-N", "2"]})) == 4


@pytest.mark.parametrize(
    ("line", "ranges"),
    [
        ("mpirun -n 6 pi", [(0, 4), (4, 6)]),
        ("mpirun --map-by slot --bind-to none -n 8 pi", [(0, 4), (4, 8)]),
        ("mpiexec -n 3 -hostfile /etc/mpi/hostfile pi", [(0, 3), (4, 3)]),
        ("mpirun -n 9 --oversubscribe pi", None),
        ("mpirun -n 6 --map-by node pi", None),
        ("mpirun -n 6 -H pi-worker-1:4,pi-worker-0:2 pi", None),
        ("mpirun -n 6 --mca rmaps_base_mapping_policy node pi", None),
        ("mpirun -n 6 --bynode pi", None),
        ("mpirun -n 6 --unknown=1 pi", None),
        ("mpirun -n=6 --bind-to=none pi", [(0, 4), (4, 6)]),
        ("mpirun -N 2 pi", None),
        ("mpirun pi", None),
    ],
)
def test_where_ranks_run(line: str, ranges: list[tuple[int, int]] | None) -> None:
    found = places(launched(line))
    assert found == (None if ranges is None else [range(*one) for one in ranges])


def test_a_variable_may_place_ranks_elsewhere() -> None:
    for name, is_certain in [("OMPI_MCA_rmaps_base_mapping_policy", False), ("OMPI_MCA_btl", True)]:
        changes: dict[str, Any] = {f"{CONTAINER}/env": [{"name": name, "value": "node"}]}
        assert (places(launched("mpirun -n 6 pi", **changes)) is not None) == is_certain


def test_a_launcher_that_is_a_worker_is_the_first_host() -> None:
    found = places(launched("mpirun -n 6 pi", "v2beta1", **{"spec/runLauncherAsWorker": True}))
    assert found == [range(4), range(4, 6), range(8, 6)]


def test_a_script_is_read_as_far_as_it_is_bounded() -> None:
    assert asked_by(["sh", "-c", f"true {'x' * 20_000}; mpirun -n 4 pi"]) == Asked(in_order=False)
