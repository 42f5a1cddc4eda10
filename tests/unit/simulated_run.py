"""A job, its cluster and two operators, and how all of that comes to rest: the ground of the machine's rules."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from settled_job import check, true_of
from simulated_api import SimulatedApi
from simulated_cluster import Cluster, role
from simulated_operator import SimulatedOperator, is_being_stopped

if TYPE_CHECKING:
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

NAME = "pi"
SETTLING_STEPS = 400


class SimulatedRun:
    """One job, by its name, and two operators: the second is a former leader with caches of its own."""

    def __init__(self) -> None:
        self.api = SimulatedApi()
        self.cluster = Cluster(self.api)
        self.ends: dict[str, tuple[str, str]] = {}  # uid → how and when the job ended
        self.won: set[str] = set()  # uids of jobs whose launcher ended with 0, and not because it was stopped
        self.foreign: dict[tuple[str, str], Body] = {}

    def start(self, wish: Body, pod_settings: PodSettings) -> None:
        """Begin with the job that the user wishes for."""
        self.wish = wish
        self.api.add("mpijobs", copy.deepcopy(wish))
        self.leader = SimulatedOperator(self.api, settings=pod_settings)
        self.former = SimulatedOperator(self.api, settings=pod_settings)

    def job(self) -> Body | None:
        return self.api.find("mpijobs", NAME)

    def edit(self, change: Any) -> None:
        """Change the spec, of what the user will make again as well."""
        body = self.job()
        change(self.wish["spec"])
        if body is not None:
            before = copy.deepcopy(body["spec"])
            change(body["spec"])
            if body["spec"] != before:
                body["metadata"]["generation"] += 1
                self.api.changed("mpijobs", body)

    def annotate(self, setting: str, value: str) -> None:
        """Say a setting by our annotation, by which the generation does not change."""
        body, name = self.job(), f"mpi-agents/{setting}"
        self.wish["metadata"].setdefault("annotations", {})[name] = value
        if body is not None and body["metadata"].setdefault("annotations", {}).get(name) != value:
            body["metadata"]["annotations"][name] = value
            self.api.changed("mpijobs", body)

    def on_pod(self, which: int, phases: tuple[str, ...], act: Any) -> None:
        found = [pod for pod in self.cluster.pods("", *phases) if role(pod)]
        if found:
            act(found[which % len(found)])

    def end_launchers(self, code: int, *, lingers: bool) -> None:
        """The launcher's program ends; a container that is not the user's may keep its pod Running."""
        job = self.job()
        uid = job["metadata"]["uid"] if job is not None else ""
        for pod in self.cluster.pods("launcher", "Running"):
            # On a dead node, a former job's may still be there.
            is_its_own = pod["metadata"]["labels"]["mpi-agents/job-uid"] == uid
            if code == 0 and job is not None and is_its_own and not is_being_stopped(job, pod):
                self.won.add(uid)
            (self.cluster.sidecar_lingers if lingers else self.cluster.end)(pod, code)

    def go_on(self, rounds: int) -> None:
        """All do their part, and no pod stays Pending."""
        for _ in range(rounds):
            self.leader.deliver_all()
            self.leader.reconcile()
            self.cluster.go_on()
            self._run_pods()

    def settle(self, *, has_deadline: bool = True) -> None:
        """Without disturbances, until nobody has cause to do anything."""
        self.api.quota = 10**6
        self.cluster.force_deletions()
        end = self.api.now + 200  # a name that someone else has is tried again for ever
        for _ in range(SETTLING_STEPS):
            version = len(self.api.log)
            self.check_end()
            self.leader.deliver_all()
            if self.leader.has_cause():
                self.leader.reconcile()
            self._run_pods()
            self.cluster.go_on()
            if version == len(self.api.log) and not self.leader.has_cause():
                next_at = self.leader.next_at()
                if next_at is None or (self.foreign and next_at > end) or not has_deadline:
                    return
                self.api.now = max(self.api.now, next_at)
        raise AssertionError(f"it does not settle: {self.api.requests[-6:]}")

    def check_end(self) -> None:
        """A job ends once, and succeeds by its launcher's success alone."""
        body = self.job()
        if body is None:
            return
        ended = true_of(body) & {"Succeeded", "Failed"}
        assert len(ended) <= 1
        uid = body["metadata"]["uid"]
        if not ended:
            assert uid not in self.ends
            return
        end = (ended.pop(), body["status"]["completionTime"])
        assert self.ends.setdefault(uid, end) == end
        assert end[0] == "Failed" or uid in self.won

    def _run_pods(self) -> None:
        for pod in self.cluster.pods("", "Pending"):
            if "deletionTimestamp" not in pod["metadata"] and role(pod):
                self.cluster.run(pod)

    def check_settled(self) -> None:
        body = self.job()
        has_ended = body is not None and body["metadata"]["uid"] in self.ends
        check(self.leader, has_ended=has_ended, has_foreign=bool(self.foreign))
