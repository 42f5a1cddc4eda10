"""`python -m agents.playground`."""

from .cli import main

main()
