"""Run the hub: `python -m rshagent.hub`."""

import sys

from rshagent.hub.cli import main

sys.exit(main())
