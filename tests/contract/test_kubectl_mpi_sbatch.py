"""A batch script of Slurm, converted, runs with a real mpirun."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from user_shell import Shell

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=Steps --nodes=2 --ntasks-per-node=2
#SBATCH --time=5 --mail-type=END
set -eu
module load openmpi
export GREETING="hello from"   # ranks have what the script exports
cd $SLURM_SUBMIT_DIR
echo "$SLURM_NTASKS tasks on $SLURM_JOB_NUM_NODES nodes, $(srun -n 1 echo once)"
srun --mpi=pmix bash -c 'echo "$GREETING $OMPI_COMM_WORLD_RANK"'
srun -N 2 -n 2 \\
     bash -c 'echo "alone: $OMPI_COMM_WORLD_LOCAL_RANK"'
"""


def test_a_batch_script_runs(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "steps.sh").write_text(SCRIPT)
    job = shell.run("convert", "--from", "sbatch", "-f", str(tmp_path / "steps.sh"), "--image", "example/mpi")
    shell.run("submit", "-f", "-", stdin=job)
    shell.run("wait", "steps")
    said = shell.run("logs", "steps").splitlines()
    assert "4 tasks on 2 nodes, once" in said
    greetings = sorted(line for line in said if line.startswith("hello"))
    assert greetings == [f"hello from {rank}" for rank in range(4)]
    assert [line for line in said if line.startswith("alone")] == ["alone: 0"] * 2
    shell.run("delete", "steps")


def test_an_image_is_needed(shell: Shell) -> None:
    assert "needs --image" in shell.run("convert", "--from", "sbatch", "-f", "-", code=2)
    assert "- is a script: use --from sbatch" in shell.run("convert", "-f", "-", code=2, stdin=SCRIPT)
    assert "are for --from sbatch" in shell.run("convert", "-f", "-", "--image", "x", code=2)
