"""`python -m delivery`."""

from delivery.cli import main

main()
