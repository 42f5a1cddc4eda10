"""What only the status of a virtual cluster has: its login pod, and which nodes its DVM has."""

from __future__ import annotations

from agents.job.conditions import NewCondition, Type
from agents.job.status import Event, StatusBuilder, Urgency, format_time
from agents.operator import objects
from agents.operator.planning.view import View

_NAMES_MAX = 3
# How long the kubelet takes to renew a mounted hostfile: a login container that was started again in its pod sooner
# after a node was created may have started its DVM without it.
_RENEWAL_S = 120.0


def set_login(view: View, builder: StatusBuilder) -> None:
    """State the fields of the status, and tell when the login container was started again."""
    login = view.launchers[-1] if view.launchers else None
    started_at = None if login is None else login.started_at(view.launcher_containers)
    since, before = None if started_at is None else format_time(started_at), view.status.get("loginStartedAt")
    is_ready = login is not None and login.state.ready and not login.is_going
    builder.fields({"loginReady": is_ready, "loginPod": view.job.launcher_name}, Urgency.AT_ONCE)
    # While nodes start, each would be a write.
    urgency = Urgency.AT_ONCE if view.ready == len(view.wanted) else Urgency.LOW
    builder.fields(
        {
            "replicas": len(view.workers),
            "selector": objects.worker_selector(view.job),
            "observedGeneration": view.job.generation,
            "readyNodes": f"{view.ready}/{len(view.wanted)}",
        },
        urgency,
    )
    if since is None or since == before:
        return
    nodes = {"dvmNodes": len(view.wanted)} if view.job.has_dvm else {}
    builder.fields({"loginStartedAt": since, **nodes}, Urgency.AT_ONCE)
    if before is not None:
        message = f"{view.job.launcher_name} was started again: what the earlier one had started on the nodes is ended"
        started = ". Its DVM is ended on all nodes, and a new one is started" if view.job.has_dvm else ""
        builder.events.append(Event("Warning", "LoginReplaced", message + started))


def set_dvm(view: View, builder: StatusBuilder) -> None:
    """Report that the DVM runs without some of the nodes: it keeps those of its start."""
    login = view.launchers[-1] if view.launchers else None
    started_at = None if login is None else login.started_at(view.launcher_containers)
    if not view.job.has_dvm or login is None or started_at is None:
        builder.remove_conditions([Type.DVM_OUTDATED])
        return
    missing = []
    for index in view.wanted:
        node = view.workers.get(index)
        node_at = None if node is None else node.started_at(view.worker_containers)
        is_later = node is not None and node.created_at > login.created_at and node.created_at > started_at - _RENEWAL_S
        if node is None or is_later or (node_at is not None and node_at > started_at):
            missing.append(view.job.worker_name(index))
    count = builder.status.get("dvmNodes")
    if not missing and count == len(view.wanted):
        builder.remove_conditions([Type.DVM_OUTDATED])
        return
    more = f" and {len(missing) - _NAMES_MAX} more" if len(missing) > _NAMES_MAX else ""
    named = f"; not in it, or started again since: {', '.join(missing[:_NAMES_MAX])}{more}" if missing else ""
    message = (
        f"the DVM keeps the {count} nodes of its start, the cluster has {len(view.wanted)}{named}. To start it again"
        f" with all nodes, which ends its jobs: kubectl -n {view.job.namespace} delete pod {login.name}"
    )
    condition = NewCondition(Type.DVM_OUTDATED, True, "NodesChanged", message)
    builder.set_condition(condition, Event("Normal", str(Type.DVM_OUTDATED), message))
