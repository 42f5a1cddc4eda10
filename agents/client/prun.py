"""How `prun` is run in a login pod by somebody outside. Pure.

A command of `kubectl exec` outlives its client, but its stdin ends with that. So the shell around prun waits for the
end of its stdin, and ends prun then. The stdin of the program is empty therefore.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.job.application import DVM_PATH

# TERM, as a shell without a terminal has its background commands ignore INT. The copy of stdin is closed in prun: what
# the ranks inherit must not keep it open.
_SCRIPT = f"""\
exec 3<&0
prun --dvm-uri file:{DVM_PATH}/uri "$@" </dev/null 3<&- & prun=$!
(read -r _ <&3; kill -TERM $prun) >/dev/null 2>&1 & watch=$!
wait $prun; code=$?
kill $watch 2>/dev/null
exit $code
"""


def command(ranks: int, program: Sequence[str]) -> list[str]:
    """Return what runs a program in the DVM with so many ranks, ends with its exit code, and ends it with stdin."""
    return ["sh", "-c", _SCRIPT, "prun", "-n", str(ranks), *program]
