"""What only the status of a virtual cluster has: its login pod, and which nodes its DVM has."""

from __future__ import annotations

from agents.job.conditions import NewCondition, Type
from agents.job.model import Role
from agents.job.status import Event, StatusBuilder, Urgency, format_time
from agents.job.template import main_container
from agents.operator import objects
from agents.operator.planning.pods import PodView
from agents.operator.planning.view import View

_NAMES_MAX = 3
# How long the kubelet takes to renew a mounted hostfile: a login container that is started again in its pod sooner
# after a node was added may start its DVM without it.
_RENEWAL_S = 120.0


def set_login(view: View, builder: StatusBuilder) -> None:
    """State the fields of the status, and report that the login container was started again."""
    login = _login(view)
    is_ready = login is not None and login.state.ready and not login.is_going
    builder.fields({"loginReady": is_ready, "loginPod": view.job.launcher_name}, Urgency.AT_ONCE)
    # While nodes start, each would be a write.
    urgency = Urgency.AT_ONCE if view.ready == len(view.wanted) else Urgency.LOW
    builder.fields(
        {
            "replicas": len(view.workers),
            "selector": objects.worker_selector(view.job.uid),
            "observedGeneration": view.job.generation,
            "readyNodes": f"{view.ready}/{len(view.wanted)}",
        },
        urgency,
    )
    started_at = None if login is None else login.started_at(_main(view, view.job.launcher))
    since, before = None if started_at is None else format_time(started_at), view.status.get("loginStartedAt")
    if login is None or started_at is None or since == before:
        return
    nodes = {"dvmNodes": _count_nodes(view, login, started_at)} if view.job.has_dvm else {}
    builder.fields({"loginStartedAt": since, **nodes}, Urgency.AT_ONCE)
    if before is not None:
        message = f"{view.job.launcher_name} was restarted: everything that it had started on the nodes is terminated"
        started = ". Its DVM is terminated on all nodes and restarted" if view.job.has_dvm else ""
        builder.events.append(Event("Warning", "LoginReplaced", message + started))


def set_dvm(view: View, builder: StatusBuilder) -> None:
    """Report that the DVM runs without some of the nodes: it keeps those of its start."""
    login, count = _login(view), builder.status.get("dvmNodes")
    ready_at = None if login is None else login.ready_at
    if not view.job.has_dvm or not isinstance(count, int) or ready_at is None:
        builder.remove_conditions([Type.DVM_OUTDATED])
        return
    later = [index for index in view.wanted if index >= count or _is_later(view, index, ready_at)]
    if not later and count == len(view.wanted):
        builder.remove_conditions([Type.DVM_OUTDATED])
        return
    names = ", ".join(view.job.worker_name(index) for index in later[:_NAMES_MAX])
    more = f" and {len(later) - _NAMES_MAX} more" if len(later) > _NAMES_MAX else ""
    message = (
        f"the DVM keeps the {count} nodes of its start, the cluster has {len(view.wanted)}"
        f"{f'; not in it, or started again since: {names}{more}' if later else ''}. To start it again with all nodes,"
        f" which ends its jobs: kubectl -n {view.job.namespace} delete pod {view.job.launcher_name}"
    )
    condition = NewCondition(Type.DVM_OUTDATED, True, "WorkersChanged", message)  # shown as NodesChanged
    builder.set_condition(condition, Event("Normal", str(Type.DVM_OUTDATED), message))


def _login(view: View) -> PodView | None:
    return view.launchers[-1] if view.launchers else None


def _main(view: View, role: Role) -> frozenset[str]:
    """Return the name of the container that the DVM runs in: another one may start again, or sooner."""
    return frozenset({str(main_container(role.template, view.job.main_container).get("name", ""))})


def _count_nodes(view: View, login: PodView, started_at: float) -> int:
    """Return how many nodes were in the hostfile when the login container was started: those from 0 on."""
    before = view.status.get("dvmNodes")
    known_by = max(login.created_at, started_at - _RENEWAL_S)
    return sum(
        index < (before if isinstance(before, int) else 0)
        or (index in view.workers and view.workers[index].created_at <= known_by)
        for index in view.wanted
    )


def _is_later(view: View, index: int, ready_at: float) -> bool:
    """Whether a node was started after the DVM was ready: then it has no daemon."""
    node = view.workers.get(index)
    started_at = None if node is None else node.started_at(_main(view, view.job.worker))
    return started_at is None or started_at > ready_at
