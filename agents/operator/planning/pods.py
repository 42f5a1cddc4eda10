"""A job's pods as plan looks at them: which they are, how they ended, and since when."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from agents.common import pods
from agents.common.text import last_lines, one_line
from agents.job.conditions import true_condition
from agents.job.json_object import Object, mappings, part
from agents.job.model import RestartPolicy
from agents.job.status import seconds
from agents.operator.objects import names

DELETION_GRACE_S = 60  # a pod that is there so long after its grace period is on a node that does not answer
_OUTPUT_MAX = 384  # bytes of a container's last lines: the launcher's and a worker's fit into one condition
_MESSAGE_MAX = 300  # characters of the kubelet's message about a pod

# Reasons of a pod's end that say nothing about its program: the kubelet's (eviction, node shutdown, admission) and the
# node lifecycle's (kubernetes, pkg/kubelet: eviction, nodeshutdown, lifecycle/predicate.go, cm/topologymanager;
# pkg/controller/podgc).
_DISRUPTIONS = frozenset({
    "Evicted", "Preempting", "Preempted", "NodeShutdown", "Shutdown", "Terminated", "NodeLost", "NodeAffinity",
    "UnexpectedAdmissionError", "TopologyAffinityError",
})  # fmt: skip
_GRACE_S = 30  # Kubernetes' default
_DELETION_DELAY_S = 2.0
_OUT_OF = "OutOf"  # and the resource: cpu, memory, pods, nvidia.com/gpu


@dataclass(frozen=True, slots=True)
class End:
    """How a pod's own containers ended. `message`: which one, how, and what it said; "" for a success."""

    exit_code: int | None  # None: no container ended by itself
    is_success: bool
    at: float | None  # epoch seconds
    message: str = ""


class PodView:
    """One pod: `raw` as it is cached, `state` as the agents read it."""

    def __init__(self, raw: Object) -> None:
        self.raw, self.state = raw, pods.parse(dict(raw))
        self._metadata, self._status = part(raw, "metadata"), part(raw, "status")
        self.annotations: Object = part(self._metadata, "annotations")  # only ours are cached
        self.name, self.uid = self.state.name, self.state.uid
        self.phase = self.state.phase  # Pending, Running, Succeeded, Failed or Unknown; "" before its first status
        self.is_going = self.state.deleting  # being deleted
        self.is_over = self.phase in ("Succeeded", "Failed")  # all its containers have exited permanently
        self.created_at = seconds(self._metadata.get("creationTimestamp")) or 0.0  # epoch seconds
        # When its grace period is, or was, over; None if it is not being deleted.
        self.deleted_by = seconds(self._metadata.get("deletionTimestamp")) if self.is_going else None
        # When its deletion takes longer than it can on a node that answers.
        self.stuck_at = None if self.deleted_by is None else self.deleted_by + DELETION_GRACE_S

    @property
    def is_disrupted(self) -> bool:
        """Whether it Failed by something that was done to it: eviction, preemption, the end of its node."""
        return self._is_evicted or (self.phase == "Failed" and self._condition("DisruptionTarget") is not None)

    @property
    def _is_evicted(self) -> bool:
        reason = self.state.reason
        return self.phase == "Failed" and (reason in _DISRUPTIONS or reason.startswith(_OUT_OF))

    @property
    def interruption(self) -> tuple[float, str] | None:
        """Since when something else than the job terminates its program (epoch seconds), and what.

        By the API server's clock; 0 where only the end of it is known.
        """
        found = []
        if self.is_going:
            grace = self._metadata.get("deletionGracePeriodSeconds")
            grace_s = grace if isinstance(grace, int) else _GRACE_S
            found.append(((self.deleted_by or 0.0) - grace_s, "its pod was being deleted"))
        target = self._condition("DisruptionTarget")
        if self._is_evicted:  # by the kubelet, whose condition comes with the end
            found.append((0.0, f"its pod failed ({self.state.reason})"))
        elif target is not None:
            since = seconds(target.get("lastTransitionTime")) or 0.0
            found.append((since, f"its pod was disrupted ({target.get('reason')})"))
        return min(found, default=None)

    @property
    def ready_at(self) -> float | None:
        """Since when it is ready (epoch seconds); None if it is not."""
        return None if self.is_going else seconds((self._condition("Ready") or {}).get("lastTransitionTime"))

    def is_interrupted(self, ended_at: float | None) -> bool:
        """Whether something else than the job terminated its program, which ended then by its node's clock."""
        if self.interruption is None:
            return False
        return ended_at is None or ended_at + self._clock_lag_s >= self.interruption[0]

    def may_be_deleted_at(self, ended_at: float | None) -> float:
        """From when on a deletion is not taken for what ended its program: times have whole seconds."""
        return 0.0 if ended_at is None else ended_at + self._clock_lag_s + _DELETION_DELAY_S

    @property
    def _clock_lag_s(self) -> float:
        """How far at least its node's clock is behind the API server's: no node sees a pod before it is bound."""
        bound_at = seconds((self._condition("PodScheduled") or {}).get("lastTransitionTime"))
        seen_at = seconds(self._status.get("startTime"))
        return 0.0 if bound_at is None or seen_at is None else max(0.0, bound_at - seen_at)

    def _condition(self, wanted: str) -> Object | None:
        return true_condition(mappings(self._status.get("conditions")), wanted)

    @property
    def failed_at(self) -> float:
        """When its last container ended, else when it was created."""
        times = [seconds(one.finished_at) for one in self.state.containers]
        return max((at for at in times if at is not None), default=self.created_at)

    def restarts(self, own: Set[str]) -> int:
        """How often the kubelet has started its own containers again, and init containers that are no sidecars."""
        counted = (one for one in self.state.containers if one.name in own or (one.init and not one.sidecar))
        return sum(one.restarts for one in counted)

    def started_at(self, own: Set[str]) -> float | None:
        """When the first of its own containers was started, this time."""
        times = [seconds(one.started_at) for one in self._own(own)]
        return min((at for at in times if at is not None), default=None)

    def last_restart(self, own: Set[str]) -> tuple[float, str] | None:
        """When one of its own containers ended and was started again, and why it ended: the last one that did."""
        last = [(seconds(one.last_finished_at), one.last_reason or "Error") for one in self._own(own)]
        return max(((at, reason) for at, reason in last if at is not None), default=None)

    def end(self, own: Set[str], policy: RestartPolicy) -> End | None:
        """How it ended; None while it runs, or will run, or the kubelet will start its container again.

        `own` are the containers of the user's template: another one, put in by a service mesh, may keep the pod
        Running after the end of all of them.
        """
        mine = self._own(own)
        have_ended = bool(mine) and len(mine) == len(own) and all(one.state == "terminated" for one in mine)
        is_success = have_ended and not any(one.exit_code for one in mine)
        is_success &= self.phase != "Failed" or not self.state.reason  # by which the kubelet has ended all of it
        if self.phase == "Succeeded" or (is_success and policy is not RestartPolicy.ALWAYS):
            return End(0, is_success=True, at=self._ended_at(own))
        if self.phase == "Failed" or (have_ended and policy in (RestartPolicy.NEVER, RestartPolicy.EXIT_CODE)):
            first = self._first_failure(own)
            code = None if first is None else first.exit_code
            return End(code, is_success=False, at=self._ended_at(own), message=self._end_message(first))
        return None

    def failures(self, own: Set[str], *, has_ended: bool = False) -> list[End]:
        """How its own containers failed, also those that were started again since, as far as the kubelet remembers.

        `has_ended`: those alone, as `end` says how the others did.
        """
        found = []
        for one in self._own(own):
            now = (one.exit_code, one.reason, one.message, one.finished_at)
            last = (one.last_exit_code, one.last_reason, one.last_message, one.last_finished_at)
            for code, reason, output, at in (last,) if has_ended else (now, last):
                if code:
                    summary = f"{self.name}: {pods.exited(f'container {one.name}', code, reason)}"
                    found.append(End(code, False, seconds(at), _with_output(summary, output)))
        return found

    def sidecar(self, name: str) -> pods.ContainerState | None:
        """Return one of ours: of the sidecars that can have its name the last one, as ours are behind the user's."""
        can_be = re.compile(rf"{name}(-\d+)?")
        return next((one for one in self.state.containers[::-1] if one.sidecar and can_be.fullmatch(one.name)), None)

    @property
    def hub(self) -> pods.ContainerState | None:
        """The hub's container."""
        return self.sidecar(names.HUB)

    @property
    def has_ended(self) -> bool:
        """Whether all its own containers have ended, and the pod waits for its sidecars: on a busy node for seconds."""
        own = [one for one in self.state.containers if not one.init]
        return bool(own) and all(one.state == "terminated" for one in own)

    @property
    def waits_for_hub(self) -> bool:
        """Whether the kubelet ends the hub, which then reports lost ranks: nothing else keeps the pod running."""
        hub = self.hub
        return self.has_ended and not self.is_over and not self.is_going and hub is not None and hub.state == "running"

    def _first_failure(self, own: Set[str]) -> pods.ContainerState | None:
        failed = [one for one in self.state.containers if one.state == "terminated" and one.exit_code]
        # A sidecar is ended behind the others, and then by the kubelet.
        return min(
            failed,
            key=lambda one: (one.sidecar or not (one.init or one.name in own), seconds(one.finished_at) or 0.0),
            default=None,
        )

    def _end_message(self, container: pods.ContainerState | None) -> str:
        if self.state.reason or container is None:
            summary = f"{self.name} failed ({self.state.reason or 'without a reason'})"
            said = one_line(self.state.message)[:_MESSAGE_MAX]
            return f"{summary}: {said}" if said else summary
        return _with_output(f"{self.name}: {pods.end_of(container)}", container.message)

    def _ended_at(self, own: Set[str]) -> float | None:
        times = [seconds(one.finished_at) for one in self._own(own)]
        return max((at for at in times if at is not None), default=None)

    def _own(self, own: Set[str]) -> list[pods.ContainerState]:
        return [one for one in self.state.containers if not one.init and one.name in own]


def own_containers(template: Object, main: str = "") -> frozenset[str]:
    """Return the containers whose end is a pod's end: all of the user's template, or the main one if it is there."""
    named = {str(one.get("name")) for one in mappings(part(template, "spec").get("containers"))}
    return frozenset({main} if main in named else named)


def _with_output(summary: str, output: str) -> str:
    """Return a summary with the container's last lines."""
    output = last_lines(output, _OUTPUT_MAX)
    return f"{summary}: {output}" if output else summary
