"""Who a process of ours is, where that decides what it may do."""

import os

NO_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""What a command begins with that root runs as in a container without capabilities: files' modes bind it."""
