"""`python -m agents.operator`, and `mpi-operator`."""

import sys

try:
    from agents.operator.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"mpi-operator: {error}: install mpi-agents[operator]")

if __name__ == "__main__":
    main()
