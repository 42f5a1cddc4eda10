"""Run the worker agent: `python -m agents.worker`."""

import sys

from agents.worker.cli import main

sys.exit(main())
