"""`run`: one's own program, under a real launcher, in stand-in pods."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING

from .stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .launchers import Launcher


def run(
    launcher: Launcher,
    program: Sequence[str],
    *,
    workers: int,
    ranks: int,
    slots: int | None = None,
    folder: str | None = None,
    verbose: bool = False,
) -> int:
    """Run `program` in the current folder; the launcher's exit code. What is not the program's goes to stderr."""

    def tell(text: str) -> None:
        sys.stderr.write(f"playground: {text}\n")

    slots = slots or math.ceil(ranks / workers)
    with Stage(launcher, workers=workers, slots=slots, tell=tell) as stage:
        cluster = stage.set_up(folder)
        tell(f"a stand-in cluster in {cluster.folder}; its pods are processes of this machine")
        stage.start()
        code = stage.launch(ranks, program, cwd=os.getcwd())
        stage.stop()
        left = stage.job.leftovers()
        if verbose:
            sys.stderr.writelines(f"{line}\n" for line in stage.job.hub_lines())
        tell(f"{launcher.title} {launcher.version} ended with {code}; {_told(left)}")
    return code


def _told(left: dict[str, list[list[str]]]) -> str:
    if not left:
        return "no process is left in any worker"
    return f"processes left in {', '.join(left)} are now killed: {next(iter(left.values()))[0][:1]}"
