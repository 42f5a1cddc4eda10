"""How launchers are made to begin each line of output with its rank: options, which all of them have.

By environment Open MPI 4.1 can, and MPICH by a file of options; Open MPI 5.0 and Intel MPI have no variable for it
(5.0.11 with PRRTE 3.0.13, 2021.18.1; by their binaries' texts, and tried).
"""

from __future__ import annotations

from agents.job.model import Implementation

# Not -prepend-rank, whose `[3] ` may be a program's own text where a line is written in pieces.
_HYDRA = ("-prepend-pattern", "[%r]<output>:")
OPTIONS = {
    Implementation.OPEN_MPI: ("--tag-output",),
    Implementation.MPICH: _HYDRA,
    Implementation.INTEL: _HYDRA,
}
"""An implementation's options."""
