"""`python -m agents.playground`, and `mpi-playground`."""

import sys
from importlib.util import find_spec

try:
    from agents.playground.cli import main

    if find_spec("aiohttp") is None:  # only the server's process imports it
        raise ModuleNotFoundError("No module named 'aiohttp'")
except ModuleNotFoundError as error:
    sys.exit(f"mpi-playground: {error}: install mpi-agents[playground]")

if __name__ == "__main__":
    main()
