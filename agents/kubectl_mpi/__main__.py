"""`python -m agents.kubectl_mpi`, and `kubectl-mpi`, which kubectl finds by its name."""

import sys

try:
    from agents.kubectl_mpi.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"kubectl-mpi: {error}: install mpi-agents[client]")

if __name__ == "__main__":
    main()
