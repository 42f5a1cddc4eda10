"""Direct mode as a file: `python -I -S -E rshagent/__main__.py …` needs no package search path, which costs time."""

import os
import sys

if not __package__:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from rshagent.direct import main

main()
