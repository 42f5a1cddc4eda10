"""A job, its cluster and two operators, and how all of that comes to rest: the ground of the machine's rules."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from settled_job import check, true_of
from simulated_api import SimulatedApi
from simulated_cluster import Cluster, role
from simulated_job import is_virtual
from stepped_operator import SteppedOperator, is_being_stopped

from tests.objects import place_of, plural_of

if TYPE_CHECKING:
    from agents.operator.settings import PodSettings

Body = dict[str, Any]

NAME = "pi"
JOB_UID = "mpi-agents/job-uid"
SETTLING_STEPS = 400
RETRY_S = 60.0  # what fails is tried again within this time


class SimulatedRun:
    """One job, by its name, and two operators: the second is an old leader with caches of its own."""

    def __init__(self) -> None:
        self.api = SimulatedApi()
        self.cluster = Cluster(self.api)
        self.ends: dict[str, tuple[str, str]] = {}  # uid → how and when the job ended
        self.won: set[str] = set()  # uids of jobs whose launcher ended with 0, and not because it was stopped
        self.foreign: dict[tuple[str, str], Body] = {}
        self.unlabelled: list[tuple[str, Body]] = []

    def start(self, wish: Body, pod_settings: PodSettings) -> None:
        """Begin with the job that the user wishes for."""
        self.wish = wish
        self.jobs = plural_of(wish)
        self.api.add(self.jobs, copy.deepcopy(wish))
        self.leader = SteppedOperator(self.api, pod_settings)
        self.old_leader = SteppedOperator(self.api, pod_settings)

    def job(self) -> Body | None:
        return self.api.find(self.jobs, NAME)

    def edit(self, change: Any) -> None:
        """Change the spec, of what the user will make again as well."""
        body = self.job()
        change(self.wish["spec"])
        if body is not None:
            self.api.objects.edit(place_of(self.jobs, body), lambda made: change(made["spec"]))

    def annotate(self, setting: str, value: str) -> None:
        """Say a setting by our annotation, by which the generation does not change."""
        body, name = self.job(), f"mpi-agents/{setting}"
        self.wish["metadata"].setdefault("annotations", {})[name] = value
        if body is not None:
            note = {"annotations": {**body["metadata"].get("annotations", {}), name: value}}
            self.api.objects.edit(place_of(self.jobs, body), lambda made: made["metadata"].update(note))

    def set_label(self, plural: str, body: Body, uid: str | None) -> None:
        """Give an object that is still there the label by which it is watched, or take it away."""
        found = self.api.find(plural, body["metadata"]["name"])
        if found is not None and found["metadata"]["uid"] == body["metadata"]["uid"]:
            rest = {name: text for name, text in found["metadata"]["labels"].items() if name != JOB_UID}
            labels = rest if uid is None else {**rest, JOB_UID: uid}
            self.api.changed(plural, {**found, "metadata": {**found["metadata"], "labels": labels}})

    def give_back(self) -> None:
        """Give back labels that were taken away, and let a job go that was deleted."""
        for plural, body in self.unlabelled:
            self.set_label(plural, body, body["metadata"]["labels"][JOB_UID])
        self.unlabelled = []
        job = self.job()
        if job is not None and job["metadata"].get("finalizers"):  # else it would be news of the job
            self.api.objects.edit(place_of(self.jobs, job), lambda made: made["metadata"].update(finalizers=[]))

    def on_pod(self, which: int, phases: tuple[str, ...], act: Any) -> None:
        found = [pod for pod in self.cluster.pods("", *phases) if role(pod)]
        if found:
            act(found[which % len(found)])

    def end_launchers(self, code: int, *, lingers: bool) -> None:
        """The launcher's program ends; a container that is not the user's may keep its pod Running."""
        job = self.job()
        uid = job["metadata"]["uid"] if job is not None else ""
        for pod in self.cluster.pods("launcher", "Running"):
            # On a dead node, an earlier job's may still be there.
            is_its_own = pod["metadata"]["labels"][JOB_UID] == uid
            is_won = code == 0 and is_its_own and job is not None and not is_being_stopped(job, pod)
            if is_won and job is not None and not is_virtual(job):
                self.won.add(uid)
            (self.cluster.sidecar_lingers if lingers else self.cluster.end)(pod, code)

    def go_on(self, rounds: int) -> None:
        """All do their part, and no pod stays Pending."""
        for _ in range(rounds):
            self.leader.reconcile_if_changed()
            self.cluster.go_on()
            self._run_pods()

    def settle(self, *, has_deadline: bool = True) -> None:
        """Without disturbances, until nobody has cause to do anything."""
        self.api.quota, self.api.lost, self.api.meanwhile = 10**6, [], {}
        self.cluster.force_deletions()
        self.give_back()
        end = self.api.now + 200  # a name that someone else has is tried again for ever
        for _ in range(SETTLING_STEPS):
            version = self.api.objects.version
            self.check_end()
            self.leader.deliver_all()
            if self.leader.has_cause():
                self.leader.step()
            self._run_pods()
            self.cluster.go_on()
            if version == self.api.objects.version and not self.leader.has_cause():
                next_at = self.leader.next_at()
                is_late = next_at is not None and not has_deadline and next_at > self.api.now + RETRY_S
                if next_at is None or is_late or (self.foreign and next_at > end):
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
        is_mistaken = self.leader.is_mistaken or self.old_leader.is_mistaken
        has_foreign = bool(self.foreign)
        check(self.leader, self.jobs, has_ended=has_ended, has_foreign=has_foreign, is_mistaken=is_mistaken)
