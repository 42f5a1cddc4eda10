"""Plan against a simulated cluster, whatever comes in between: crashes, late caches, a former leader, users, faults.

Whenever the disturbances stop, everything settles in few steps, and then the job is what its spec asks for. The
operators plan only when they have cause to, so a job that is forgotten does not settle.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mpijobs import mpijob
from settled_job import check, true_of
from simulated_api import SimulatedApi
from simulated_cluster import PLURALS, Cluster, role
from simulated_operator import SimulatedOperator

from agents.operator.settings import PodSettings

Body = dict[str, Any]

NAME = "pi"
JOB_UID = "mpi-agents/job-uid"
SETTLING_STEPS = 400
WATCHED = ("mpijobs", "pods", "jobs", "configmaps", "roles", "podgroups")
FOREIGN = {"configmaps": "pi-config", "roles": "pi-launcher", "services": "pi", "pods": "pi-worker-1"}


class Operations(RuleBasedStateMachine):
    """One job, by its name, and two operators: the second is a former leader with caches of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.api = SimulatedApi()
        self.cluster = Cluster(self.api)
        self.ends: dict[str, tuple[str, str]] = {}  # uid → how and when the job ended
        self.foreign: dict[tuple[str, str], Body] = {}

    @initialize(
        dialect=st.sampled_from(["v1", "v2beta1"]),
        clean=st.sampled_from(["None", "Running", "All"]),
        waits=st.booleans(),
        restarts=st.tuples(*[st.sampled_from(["Never", "OnFailure", "ExitCode"])] * 2),
        limits=st.fixed_dictionaries(
            {}, optional={"activeDeadlineSeconds": st.just(300), "ttlSecondsAfterFinished": st.sampled_from([0, 100])}
        ),
        gang=st.sampled_from(["", "volcano"]),
        update=st.sampled_from(["", "RollingUpdate", "OnDelete"]),
        is_running=st.booleans(),
    )
    def begin(
        self,
        dialect: str,
        clean: str,
        waits: bool,
        restarts: tuple[str, str],
        limits: dict[str, int],
        gang: str,
        update: str,
        is_running: bool,
    ) -> None:
        launcher, worker = (one if dialect == "v1" else one.replace("ExitCode", "Never") for one in restarts)
        changes = {
            "apiVersion": "kubeflow.org/v2beta1",
            "spec/dialect": dialect,
            "spec/transport": "exec",
            "spec/runPolicy": {"cleanPodPolicy": clean, "backoffLimit": 2, **limits},
            "spec/launcherCreationPolicy": "WaitForWorkersReady" if waits else "AtStartup",
            "spec/mpiReplicaSpecs/Launcher/restartPolicy": launcher,
            "spec/mpiReplicaSpecs/Worker/restartPolicy": worker,
            "metadata/annotations": {"mpi-agents/worker-update-strategy": update} if update else {},
        }
        self.wish = mpijob(dialect, changes)
        pod_settings = PodSettings(image="mpi-agents:test", gang_scheduler=gang)
        self.user_makes_the_job()
        self.leader = SimulatedOperator(self.api, settings=pod_settings)
        self.former = SimulatedOperator(self.api, settings=pod_settings)
        if is_running:
            self.settle(has_deadline=False)

    # What the user does.

    @precondition(lambda self: self.job() is None)
    @rule()
    def user_makes_the_job(self) -> None:
        self.api.add("mpijobs", copy.deepcopy(self.wish))

    @rule(replicas=st.integers(1, 4))
    def user_scales(self, replicas: int) -> None:
        self.edit(lambda spec: spec["mpiReplicaSpecs"]["Worker"].update(replicas=replicas))

    @rule(is_suspended=st.booleans())
    def user_suspends_or_resumes(self, is_suspended: bool) -> None:
        self.edit(lambda spec: spec["runPolicy"].update(suspend=is_suspended))

    @rule(image=st.sampled_from(["example/one", "example/two"]))
    def user_changes_the_workers_template(self, image: str) -> None:
        self.edit(lambda spec: self.container(spec).update(image=image))

    @rule(is_bad=st.sampled_from([False, False, True]))
    def user_makes_the_job_unreadable_or_readable(self, is_bad: bool) -> None:
        self.edit(lambda spec: spec.update(slotsPerWorker=-1 if is_bad else 1))

    @precondition(lambda self: self.job() is not None)
    @rule()
    def user_deletes_the_job(self) -> None:
        body = self.job()
        assert body is not None
        self.api.remove("mpijobs", body)

    @rule(plural=st.sampled_from(PLURALS), which=st.integers(0, 5))
    def user_deletes_an_object(self, plural: str, which: int) -> None:
        found = [body for body in self.api.all(plural) if (plural, body["metadata"]["name"]) not in self.foreign]
        if found:
            self.api.remove(plural, found[which % len(found)])

    @rule(plural=st.sampled_from(sorted(FOREIGN)))
    def user_takes_a_name(self, plural: str) -> None:
        if self.api.find(plural, FOREIGN[plural]) is None:
            body: Body = {"metadata": {"name": FOREIGN[plural]}, "data": {"mine": "yes"}, "spec": {"containers": []}}
            self.foreign[plural, FOREIGN[plural]] = copy.deepcopy(self.api.add(plural, body))

    @rule()
    def user_gives_names_back(self) -> None:
        for plural, name in list(self.foreign):
            self.api.drop(plural, self.api.objects[plural, name])
        self.foreign = {}

    # What the cluster does.

    @rule(which=st.integers(0, 5))
    def a_pod_runs(self, which: int) -> None:
        self.on_pod(which, ("Pending",), self.cluster.run)

    @rule(which=st.integers(0, 5), code=st.sampled_from([1, 137]))
    def a_pod_fails(self, which: int, code: int) -> None:
        self.on_pod(which, ("Running",), lambda pod: self.cluster.end(pod, code))

    @rule(which=st.integers(0, 5))
    def a_pod_is_evicted(self, which: int) -> None:
        self.on_pod(which, ("Running", "Pending"), lambda pod: self.cluster.end(pod, 137, "Evicted"))

    @rule(code=st.sampled_from([0, 0, 1]), lingers=st.booleans())
    def a_launcher_ends(self, code: int, lingers: bool) -> None:
        for pod in self.cluster.pods("launcher", "Running"):
            (self.cluster.sidecar_lingers if lingers else self.cluster.end)(pod, code)

    @rule(which=st.integers(0, 5))
    def a_node_dies(self, which: int) -> None:
        self.on_pod(which, ("Running",), lambda pod: self.cluster.dead.add(pod["metadata"]["uid"]))

    @rule()
    def the_cluster_goes_on(self) -> None:
        self.cluster.finish_deletions()
        self.cluster.collect_garbage()
        self.cluster.run_jobs()

    @rule(made=st.integers(0, 4))
    def the_quota_shrinks(self, made: int) -> None:
        self.api.quota = made

    @rule(seconds=st.sampled_from([1, 7, 70, 400]))
    def time_passes(self, seconds: int) -> None:
        self.api.now += seconds

    # What the operators do.

    @rule(plural=st.sampled_from(WATCHED), most=st.integers(1, 3), leads=st.booleans())
    def events_come(self, plural: str, most: int, leads: bool) -> None:
        (self.leader if leads else self.former).deliver(plural, most)

    @rule(plural=st.sampled_from(WATCHED))
    def events_are_repeated(self, plural: str) -> None:
        self.leader.repeat(plural)

    @rule(crash_after=st.one_of(st.none(), st.integers(0, 12)))
    def the_leader_plans(self, crash_after: int | None) -> None:
        self.leader.reconcile(crash_after)

    @rule(rounds=st.integers(1, 3))
    def all_goes_on(self, rounds: int) -> None:
        for _ in range(rounds):
            self.leader.deliver_all()
            self.leader.reconcile()
            self.the_cluster_goes_on()
            for pod in self.cluster.pods("worker", "Pending"):
                self.cluster.run(pod)

    @rule()
    def a_former_leader_plans(self) -> None:
        self.former.reconcile()

    # What always holds.

    @invariant()
    def an_end_is_for_good(self) -> None:
        body = self.job()
        if body is None:
            return
        ended = true_of(body) & {"Succeeded", "Failed"}
        assert len(ended) <= 1
        uid = body["metadata"]["uid"]
        if ended:
            end = (ended.pop(), body["status"]["completionTime"])
            assert self.ends.setdefault(uid, end) == end
        else:
            assert uid not in self.ends

    @invariant()
    def never_two_launchers(self) -> None:
        """Of one job: one of the same name may be made while the pods of a former one end."""
        jobs = [pod["metadata"]["labels"][JOB_UID] for pod in self.cluster.pods("launcher", "Pending", "Running")]
        assert len(jobs) == len(set(jobs))

    @invariant()
    def what_is_not_ours_is_not_touched(self) -> None:
        for key, body in self.foreign.items():
            assert self.api.objects.get(key) == body

    # What everything comes to.

    @rule()
    def disturbances_stop(self) -> None:
        self.settle()
        self.check_settled()

    def teardown(self) -> None:
        if hasattr(self, "leader"):
            self.settle()
            self.check_settled()

    def settle(self, *, has_deadline: bool = True) -> None:
        self.api.quota = 10**6
        self.cluster.force_deletions()
        end = self.api.now + 200  # a name that someone else has is tried again for ever
        for _ in range(SETTLING_STEPS):
            version = len(self.api.log)
            self.an_end_is_for_good()
            self.leader.deliver_all()
            if self.leader.has_cause():
                self.leader.reconcile()
            for pod in self.cluster.pods("", "Pending"):
                if "deletionTimestamp" not in pod["metadata"] and role(pod):
                    self.cluster.run(pod)
            self.cluster.finish_deletions()
            self.cluster.collect_garbage()
            self.cluster.run_jobs()
            if version == len(self.api.log) and not self.leader.has_cause():
                next_at = self.leader.next_at()
                if next_at is None or (self.foreign and next_at > end) or not has_deadline:
                    return
                self.api.now = max(self.api.now, next_at)
        raise AssertionError(f"it does not settle: {self.api.requests[-6:]}")

    def check_settled(self) -> None:
        body = self.job()
        has_ended = body is not None and body["metadata"]["uid"] in self.ends
        check(self.leader, has_ended=has_ended, has_foreign=bool(self.foreign))

    # Shared by the rules.

    def job(self) -> Body | None:
        return self.api.find("mpijobs", NAME)

    def edit(self, change: Any) -> None:
        body = self.job()
        change(self.wish["spec"])
        if body is not None:
            before = copy.deepcopy(body["spec"])
            change(body["spec"])
            if body["spec"] != before:
                body["metadata"]["generation"] += 1
                self.api.changed("mpijobs", body)

    def container(self, spec: Body) -> Body:
        found: Body = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        return found

    def on_pod(self, which: int, phases: tuple[str, ...], act: Any) -> None:
        found = [pod for pod in self.cluster.pods("", *phases) if role(pod)]
        if found:
            act(found[which % len(found)])


TestOperations = Operations.TestCase
# To shrink a failure takes longer than to read it.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
TestOperations.settings = settings(max_examples=200, stateful_step_count=40, phases=PHASES, report_multiple_bugs=False)
