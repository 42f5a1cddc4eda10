"""`python -m agents.worker`, and `mpi-worker`."""

import sys

try:
    from agents.worker.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"mpi-worker: {error}: install mpi-agents[worker]")

if __name__ == "__main__":
    sys.exit(main())
