"""`kubectl mpi logs --rank`: what one rank wrote, by the tags that `run` and `spec.tagOutput` ask a real mpirun for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from user_shell import Shell

TALK = ("sh", "-c", 'echo "[0] from $OMPI_COMM_WORLD_RANK"; echo over')


def test_ranks_of_a_run(shell: Shell) -> None:
    written = shell.run("run", "none", "-n", "2", "--name", "talks", "--", *TALK)
    first = [line for line in written.splitlines() if line.startswith("[1,0]")]  # mpirun may warn
    assert sorted(first) == ["[1,0]<stdout>:[0] from 0", "[1,0]<stdout>:over"]
    for options in ([], ["-f"]):
        assert shell.run("logs", "talks", "--rank", "1", *options) == "[0] from 1\nover\n"
    assert shell.run("logs", "talks", "--rank", "1", "--tail", "1") == "over\n"
    assert shell.run("logs", "talks", "--rank", "7") == ""
    assert "can't be combined with --worker" in shell.run("logs", "talks", "--rank", "1", "--worker", "0", code=2)
    shell.run("delete", "talks")
