"""`python -m agents.playground`, and `mpi-playground`."""

import sys
from importlib.util import find_spec

try:
    from agents.playground.cli import main

    for name in ("aiohttp", "cryptography"):  # they are imported later, or by another process
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named '{name}'")
except ModuleNotFoundError as error:
    sys.exit(f"mpi-playground: {error}: install mpi-agents[playground]")

if __name__ == "__main__":
    main()
