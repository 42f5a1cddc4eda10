"""`python -m delivery`, and `mpi-delivery`."""

import sys

try:
    from delivery.cli import main
except ModuleNotFoundError as error:
    sys.exit(f"mpi-delivery: {error}: install mpi-agents[delivery]")

if __name__ == "__main__":
    main()
