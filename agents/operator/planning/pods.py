"""A job's pods as plan looks at them: which they are, how they ended, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agents.job.model import RestartPolicy
from agents.job.status import seconds
from agents.operator.planning.values import mapping, mappings
from rshagent import pods
from rshagent.status import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from agents.job.model import Object

DELETION_GRACE_S = 60  # a pod that is there so long after its grace period is on a node that does not answer
_WORDS_MAX = 300  # of a container's termination message

# Why a pod ended that says nothing about its program: the kubelet's (eviction, node shutdown, admission) and the node
# lifecycle's words (kubernetes, pkg/kubelet: eviction, nodeshutdown, lifecycle/predicate.go, cm/topologymanager;
# pkg/controller/podgc).
_DISRUPTIONS = frozenset({
    "Evicted", "Preempting", "Preempted", "NodeShutdown", "Shutdown", "Terminated", "NodeLost", "NodeAffinity",
    "UnexpectedAdmissionError", "TopologyAffinityError",
})  # fmt: skip
_NO_ROOM = "OutOf"  # and the resource: cpu, memory, pods, nvidia.com/gpu


@dataclass(frozen=True, slots=True)
class End:
    """How a pod's own containers ended. `words`: which one, how, and what it said; "" for a success."""

    exit_code: int | None  # None: no container ended by itself
    is_success: bool
    at: float | None  # epoch seconds
    words: str = ""


@dataclass(frozen=True)
class PodView:
    """One pod."""

    raw: Object

    @cached_property
    def state(self) -> pods.Pod:
        """What the agents read from it."""
        return pods.parse(dict(self.raw))

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.state.uid

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown; "" before its first status."""
        return self.state.phase

    @property
    def is_going(self) -> bool:
        """Whether it is being deleted."""
        return self.state.deleting

    @property
    def is_over(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def created_at(self) -> float:
        """Epoch seconds; 0 if it does not say."""
        return seconds(self._metadata.get("creationTimestamp")) or 0.0

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Those of ours."""
        return mapping(self._metadata.get("annotations"))

    @property
    def is_disrupted(self) -> bool:
        """Whether it Failed by something that was done to it: eviction, preemption, the end of its node."""
        conditions = mappings(mapping(self.raw.get("status")).get("conditions"))
        is_target = any(one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in conditions)
        reason = self.state.reason
        return self.phase == "Failed" and (is_target or reason in _DISRUPTIONS or reason.startswith(_NO_ROOM))

    @property
    def deleted_by(self) -> float | None:
        """When its grace period is, or was, over; None: it is not being deleted."""
        return seconds(self._metadata.get("deletionTimestamp")) if self.is_going else None

    @property
    def stuck_at(self) -> float | None:
        """When its deletion will have taken, or took, longer than it can on a node that answers; None: not deleted."""
        return None if self.deleted_by is None else self.deleted_by + DELETION_GRACE_S

    @property
    def failed_at(self) -> float:
        """When its last container ended, else when it was created."""
        return max((at for at in map(_finished_at, self._statuses()) if at is not None), default=self.created_at)

    def restarts(self, own: Set[str]) -> int:
        """How often the kubelet has started its own containers again, and init containers that are no sidecars."""
        init = mappings(mapping(self.raw.get("spec")).get("initContainers"))
        counted = {one.get("name") for one in init if one.get("restartPolicy") != "Always"} | own
        return sum(one.restarts for one in self.state.containers if one.name in counted)

    def started_at(self, own: Set[str]) -> float | None:
        """When the first of its own containers was started, this time."""
        return min((at for at in map(_started_at, self._statuses(own)) if at is not None), default=None)

    def last_restart(self, own: Set[str]) -> tuple[float, str] | None:
        """When one of its own containers ended and was started again, and why it ended: the last one that did."""
        found = []
        for status in self._statuses(own):
            last = mapping(mapping(status.get("lastState")).get("terminated"))
            at = seconds(last.get("finishedAt"))
            if at is not None:
                found.append((at, str(last.get("reason") or "Error")))
        return max(found, default=None)

    def end(self, own: Set[str], policy: RestartPolicy) -> End | None:
        """How it ended; None while it runs, or will run, or the kubelet will start its container again.

        `own` are the containers of the user's template: another one, put in by a service mesh, may keep the pod
        Running after the end of all of them.
        """
        mine = [one for one in self.state.containers if one.name in own and not one.init]
        have_ended = bool(mine) and len(mine) == len(own) and all(one.state == "terminated" for one in mine)
        is_success = have_ended and not any(one.exit_code for one in mine)
        if self.phase == "Succeeded" or (is_success and policy is not RestartPolicy.ALWAYS):
            return End(0, is_success=True, at=self._ended_at(own))
        if self.phase == "Failed" or (have_ended and policy in (RestartPolicy.NEVER, RestartPolicy.EXIT_CODE)):
            first = self._first_failure(own)
            code = None if first is None else first.exit_code
            return End(code, is_success=False, at=self._ended_at(own), words=self._words(first))
        return None

    def last_failure(self, own: Set[str]) -> str:
        """How one of its own containers failed last, also one that was started again since; "" if none has."""
        found = []
        for status in self._statuses(own):
            for state in ("state", "lastState"):
                ended = mapping(mapping(status.get(state)).get("terminated"))
                if ended.get("exitCode"):
                    words = f"{self.name}: container {status.get('name')} exited with {ended['exitCode']}"
                    reason = "" if ended.get("reason") in (None, "Error") else f" ({ended['reason']})"
                    said = one_line(str(ended.get("message") or ""))[:_WORDS_MAX]
                    found.append(
                        (seconds(ended.get("finishedAt")) or 0.0, f"{words}{reason}{': ' if said else ''}{said}")
                    )
        return max(found, default=(0.0, ""))[1]

    def _first_failure(self, own: Set[str]) -> pods.ContainerState | None:
        failed = [one for one in self.state.containers if one.state == "terminated" and one.exit_code]
        # A sidecar is ended behind the others, and then by the kubelet.
        own_first = sorted(failed, key=lambda one: one.sidecar or not (one.init or one.name in own))
        return own_first[0] if own_first else None

    def _words(self, container: pods.ContainerState | None) -> str:
        if self.state.reason or container is None:
            said = one_line(self.state.message)
            why = self.state.reason or "without a reason"
            return f"{self.name} failed ({why}){': ' if said else ''}{said[:_WORDS_MAX]}"
        reason = f" ({container.reason})" if container.reason not in ("", "Error") else ""
        kind = "init container" if container.init else "container"
        said = one_line(container.message)[:_WORDS_MAX]
        words = f"{self.name}: {kind} {container.name} exited with {container.exit_code}{reason}"
        return f"{words}: {said}" if said else words

    def _ended_at(self, own: Set[str]) -> float | None:
        return max((at for at in map(_finished_at, self._statuses(own)) if at is not None), default=None)

    def _statuses(self, own: Set[str] | None = None) -> list[Mapping[str, Any]]:
        status = mapping(self.raw.get("status"))
        found = mappings(status.get("containerStatuses"))
        if own is None:
            return [*mappings(status.get("initContainerStatuses")), *found]
        return [one for one in found if one.get("name") in own]

    @property
    def _metadata(self) -> Mapping[str, Any]:
        return mapping(self.raw.get("metadata"))


def own_containers(template: Object, main: str = "") -> frozenset[str]:
    """Return the containers whose end is a pod's end: all of the user's template, or the main one if it is there."""
    named = {str(one.get("name")) for one in mappings(mapping(template.get("spec")).get("containers"))}
    return frozenset({main} if main in named else named)


def _started_at(status: Mapping[str, Any]) -> float | None:
    state = mapping(status.get("state"))
    return seconds(mapping(state.get("running") or state.get("terminated")).get("startedAt"))


def _finished_at(status: Mapping[str, Any]) -> float | None:
    return seconds(mapping(mapping(status.get("state")).get("terminated")).get("finishedAt"))
