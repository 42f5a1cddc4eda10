"""`python -m agents.playground`, and `mpi-playground`."""

import sys

try:
    from agents.playground.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"mpi-playground: {error}: install mpi-agents[playground]")

if __name__ == "__main__":
    main()
