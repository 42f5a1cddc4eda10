"""What is told of debug mode.

The mode is a launcher's for its life, as its template is: switched on or off, it holds from the next one on. So the
condition says how the present launcher was made, and what to do where the job's spec wants another.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from agents.job import conditions
from agents.job.conditions import Stated, Type
from agents.job.status import Event
from agents.job.template import main_container
from agents.operator.planning.launcher import Stage

if TYPE_CHECKING:
    from agents.job.status import Draft
    from agents.operator.planning.launcher import Launcher
    from agents.operator.planning.view import View


def tell(view: View, draft: Draft, launcher: Launcher) -> None:
    """State whether the launcher is, or will be, one that waits for its user."""
    is_wanted, said = view.job.debug is not None, conditions.find(draft.status["conditions"], Type.DEBUGGING)
    is_there = launcher.stage is not Stage.ABSENT
    is_debugged = is_wanted if not is_there else said is not None and said.get("status") == "True"
    if not (is_wanted or is_debugged):
        draft.forget([Type.DEBUGGING])
        return
    reason, words = "DebugMode", _how_to_enter(view)
    if is_debugged and not is_wanted:
        reason, words = "DebugModeEnds", f"debug mode is off, and the launcher is one that waits: {_how_to_go_on(view)}"
        words += ", or pause and resume the job"
    elif is_wanted and not is_debugged:
        reason, words = "DebugModeLater", f"debug mode is on, and the launcher is one that runs: {_how_to_go_on(view)}"
    draft.note(Stated(Type.DEBUGGING, is_debugged, reason, words), Event("Normal", reason, words))


def _how_to_enter(view: View) -> str:
    container = str(main_container(view.job.launcher.template, view.job.main_container).get("name", ""))
    line = f"; the job's own line: {shlex.join(view.job.launch_command)}" if view.job.launch_command else ""
    return (
        "the launcher waits, and starts nothing by itself. To enter it: "
        f"kubectl -n {view.job.namespace} exec -it {_launcher(view)} -c {container} -- sh{line}"
    )


def _how_to_go_on(view: View) -> str:
    return f"to have it made anew, kubectl -n {view.job.namespace} delete {_launcher(view, 'pod/')}"


def _launcher(view: View, pod: str = "") -> str:
    return f"{pod if view.job.dialect.has_launcher_pod else 'job/'}{view.job.launcher_name}"
