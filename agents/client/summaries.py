"""Makes of a job's facts what commands show. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agents.client import command_line
from agents.client.diagnosis import diagnose
from agents.client.facts import Facts, PodFacts
from agents.client.model import Explanation, JobEvent, JobStatus, JobSummary, PodSummary
from agents.client.objects import event_time, kind_of
from agents.client.ranks import why_unseen
from agents.client.timeline import timeline
from agents.common.not_ready import not_ready
from agents.common.text import printable
from agents.job.json_object import Object, mappings, part
from agents.job.model import WORKER
from agents.job.read import dialect_of
from agents.job.status import seconds


def summary_of(facts: Facts, explanation: Explanation | None = None) -> JobSummary:
    """Return a job in a line. `explanation`: if it is known already."""
    why = explanation or diagnose(facts)
    kind = kind_of(facts.resource)
    return JobSummary(
        namespace=facts.namespace,
        name=facts.name,
        state=why.state,
        reason=why.reason,
        ready=facts.ready,
        workers=facts.wanted,
        slots=facts.slots,
        ranks=None if facts.job is None else command_line.ranks_of(facts.job),
        created=facts.created_at,
        ended=facts.time("completionTime"),
        queue=printable(facts.queue),
        position=None if facts.pending is None else facts.pending.position,
        resource=f"{kind.name.lower()}.{kind.group}/{facts.name}",
        dialect=str(dialect_of(facts.resource, kind.api_version.rpartition("/")[2])),
        transport="" if facts.job is None else str(facts.job.transport),
        uid=str(part(facts.resource, "metadata").get("uid") or ""),
    )


def status_of(facts: Facts) -> JobStatus:
    """Return a job on a screen."""
    why = diagnose(facts)
    summary = summary_of(facts, why)
    hosts = _hosts(facts)
    wanted = sorted({*facts.workers, *(range(facts.wanted) if not why.state.has_ended else ())})
    return JobStatus(
        summary=summary,
        explanation=why,
        launchers=tuple(_pod(pod, hosts) for pod in facts.launchers),
        workers=tuple(
            _pod(pod, hosts) if (pod := facts.workers.get(index)) else _absent(facts, index, hosts) for index in wanted
        ),
        timeline=timeline(facts),
        notes=_notes(facts, hosts),
        exit_code=_exit_code(facts),
    )


def events_of(events: Iterable[Object]) -> list[JobEvent]:
    """Return events, in their order."""
    found = []
    for one in events:
        about = part(one, "involvedObject")
        count = one.get("count") or part(one, "series").get("count")
        found.append(
            JobEvent(
                seconds(event_time(one)),
                printable(str(one.get("type") or "")),
                printable(str(one.get("reason") or "")),
                printable(f"{about.get('kind')}/{about.get('name')}"),
                printable(str(one.get("message") or "")),
                count if isinstance(count, int) else 1,
            )
        )
    return found


def _hosts(facts: Facts) -> dict[int | None, tuple[int, str]]:
    """Return the slots and ranks of each host by the worker's index, None for a launcher that is one."""
    if facts.job is None:
        return {}
    hosts = [*([None] if facts.job.launcher_is_worker else []), *range(facts.wanted)]
    placed = command_line.places(facts.job)
    shown = [""] * len(hosts) if placed is None else [_range(one) for one in placed]
    return {host: (facts.job.slots, one) for host, one in zip(hosts, shown, strict=True)}


def _notes(facts: Facts, hosts: Mapping[int | None, tuple[int, str]]) -> tuple[str, ...]:
    """What is unknown about a job, and how to make it visible."""
    is_unknown = any(slots > 1 and not ranks for slots, ranks in hosts.values())
    if facts.has_ended or not facts.workers or not is_unknown:
        return ()
    return (f"Which ranks run where: {why_unseen(facts) or f'`kubectl mpi top {facts.name}` asks the worker agents'}.",)


def _range(of: range) -> str:
    return "-" if not of else f"{of[0]}-{of[-1]}" if len(of) > 1 else str(of[0])


def _pod(pod: PodFacts, hosts: Mapping[int | None, tuple[int, str]]) -> PodSummary:
    slots, placed = hosts.get(pod.index, (0, ""))
    is_done = pod.state.phase == "Succeeded"  # then that it is not ready needs no reason
    return PodSummary(
        name=pod.name,
        role=pod.role,
        index=pod.index,
        node=printable(pod.state.node),
        phase=printable(pod.state.phase),
        ready=pod.why is None,
        reason="Completed" if is_done else printable(pod.reason),
        message="" if is_done or pod.why is None else printable(str(pod.why)),
        restarts=pod.restarts,
        slots=slots,
        ranks=placed,
    )


def _absent(facts: Facts, index: int, hosts: Mapping[int | None, tuple[int, str]]) -> PodSummary:
    message = printable(str(not_ready(None)))
    return PodSummary(facts.worker_name(index), WORKER, index, "", "", False, "Missing", message, 0, *hosts[index])


def _exit_code(facts: Facts) -> int | None:
    """The launcher's exit code: of the last one of its pods that has ended."""
    for pod in reversed(facts.launchers):
        if pod.main is not None and pod.main.state == "terminated":
            return pod.main.exit_code
        if pod.main is not None and pod.main.last_exit_code is not None:
            return pod.main.last_exit_code
    attempts = mappings(part(facts.resource, "status").get("failedAttempts"))  # our operator's, of pods that are gone
    code = attempts[-1].get("exitCode") if attempts else None
    return code if isinstance(code, int) else None
