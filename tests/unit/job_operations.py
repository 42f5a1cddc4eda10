"""The operator on a simulated cluster, whatever comes in between: crashes, late caches, an old leader, users, faults.

Whenever the disturbances stop, everything settles in few steps, and then the job is what its spec asks for. The
operators plan only when they have cause to, so a job that is forgotten does not settle. The tests are of one kind of
jobs each (test_operator_plan_machine*.py), so that they run beside each other.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from simulated_cluster import PLURALS, make_of, role
from simulated_job import Choices, change_image, debug, new, pause, scale, spoil
from simulated_run import JOB_UID, SimulatedRun

from agents.operator.settings import PodSettings
from tests.objects import T9K

if TYPE_CHECKING:
    from collections.abc import Callable

Body = dict[str, Any]

WATCHED = (
    "mpijobs",
    f"mpijobs.{T9K}",
    "virtualclusters",
    "pods",
    "jobs",
    "configmaps",
    "secrets",
    "roles",
    "podgroups",
)
WHOLE = [  # a whole job's
    *(("transport", "exec"), ("transport", "ssh")),
    *(("dialect", "v1"), ("dialect", "v2beta1")),
    *(("ssh-port", "2300"), ("ssh-port", "2400")),
]
MEANWHILE: dict[str, Callable[[Any, int], object]] = {
    "events come": lambda run, _: run.leader.deliver_all(),
    "all goes on": lambda run, _: [run.cluster.go_on(), run.leader.deliver_all()],
    "scale": lambda run, number: run.user_scales(1 + number % 4),
    "pause": lambda run, _: run.user_pauses_or_resumes(is_paused=True),
    "resume": lambda run, _: run.user_pauses_or_resumes(is_paused=False),
    "delete": lambda run, _: run.job() and run.user_deletes_the_job(is_held=False, is_made_again=True),
    "the launcher ends": lambda run, _: run.end_launchers(0, lingers=False),
    "a pod is evicted": lambda run, which: run.a_pod_is_evicted(which),
    "an object is deleted": lambda run, which: run.user_deletes_an_object(PLURALS[which], 0),
    "another plans": lambda run, _: run.old_leader.reconcile(),
}
FOREIGN = {
    "configmaps": "pi-config",
    "secrets": "pi-ssh",
    "roles": "pi-launcher",
    "services": "pi",
    "pods": "pi-worker-1",
}


class Operations(SimulatedRun, RuleBasedStateMachine):
    """What may come, in any order."""

    def __init__(self) -> None:
        SimulatedRun.__init__(self)
        RuleBasedStateMachine.__init__(self)

    def begin_with(self, choices: Choices, gang: str, is_running: bool) -> None:
        """For a rule with @initialize(**beginning(...))."""
        self.start(new(choices), PodSettings(image="mpi-agents:test", gang_scheduler=gang))
        if is_running:
            self.settle(has_deadline=False)

    def named(self, name: str) -> str:
        """The name that this job wants: a virtual cluster has nodes and a login pod."""
        is_virtual = self.jobs == "virtualclusters"
        return name.replace("-launcher", "-login").replace("-worker-", "-node-") if is_virtual else name

    # What the user does.

    @precondition(lambda self: self.job() is None)
    @rule()
    def user_makes_the_job(self) -> None:
        self.api.add(self.jobs, copy.deepcopy(self.wish))

    @rule(replicas=st.integers(1, 4))
    def user_scales(self, replicas: int) -> None:
        self.edit(lambda spec: scale(spec, replicas))

    @rule(is_paused=st.booleans())
    def user_pauses_or_resumes(self, is_paused: bool) -> None:
        self.edit(lambda spec: pause(spec, is_paused))

    @rule(code=st.sampled_from([None, None, 0, 1]), is_resumed_early=st.booleans())
    def user_pauses_when_all_run(self, code: int | None, is_resumed_early: bool) -> None:
        """The launcher is told to end: it may exit by itself, while the user has thought better of it."""
        self.user_pauses_or_resumes(is_paused=False)
        self.go_on(3)
        self.user_pauses_or_resumes(is_paused=True)
        self.leader.deliver_all()
        self.leader.reconcile()
        if code is not None:
            self.end_launchers(code, lingers=False)
        if is_resumed_early:
            self.user_pauses_or_resumes(is_paused=False)

    @rule(is_debugged=st.booleans())
    def user_switches_debug_mode(self, is_debugged: bool) -> None:
        """Also of a paused job, which can't be read then."""
        self.edit(lambda spec: debug(spec, is_debugged))

    @rule(is_debugged=st.booleans(), then=st.sampled_from(["", "pauses", "deletes the launcher"]))
    def user_switches_debug_mode_when_all_run(self, is_debugged: bool, then: str) -> None:
        self.user_pauses_or_resumes(is_paused=False)
        self.go_on(3)
        self.user_switches_debug_mode(is_debugged)
        self.go_on(1)
        if then == "pauses":
            self.user_switches_debug_mode(is_debugged=False)
            self.user_pauses_and_resumes()
        elif then:
            for pod in self.cluster.pods("launcher", "Running"):
                self.api.remove("pods", pod)
            self.end_launchers(0, lingers=False)

    @rule()
    def user_pauses_and_resumes(self) -> None:
        """And waits for either."""
        for is_paused in (True, False):
            self.user_pauses_or_resumes(is_paused)
            self.go_on(4)

    @rule(image=st.sampled_from(["example/one", "example/two"]))
    def user_changes_the_workers_template(self, image: str) -> None:
        self.edit(lambda spec: change_image(spec, image))

    @rule(setting=st.sampled_from(WHOLE))
    def user_annotates(self, setting: tuple[str, str]) -> None:
        """At any time: it holds for a job without pods."""
        self.annotate(*setting)

    @rule(setting=st.sampled_from(WHOLE), which=st.integers(0, 5))
    def user_annotates_and_a_pod_is_lost(self, setting: tuple[str, str], which: int) -> None:
        self.user_pauses_or_resumes(is_paused=False)
        self.go_on(3)
        self.annotate(*setting)
        self.a_pod_is_evicted(which)
        self.go_on(3)

    @rule(setting=st.sampled_from(WHOLE))
    def user_pauses_annotates_and_resumes(self, setting: tuple[str, str]) -> None:
        self.user_pauses_or_resumes(is_paused=True)
        self.annotate(*setting)
        self.go_on(4)
        self.user_pauses_or_resumes(is_paused=False)
        self.go_on(4)

    @rule(is_bad=st.sampled_from([False, False, True]))
    def user_makes_the_job_unreadable_or_readable(self, is_bad: bool) -> None:
        self.edit(lambda spec: spoil(spec, is_bad))

    @precondition(lambda self: self.job() is not None)
    @rule(is_held=st.booleans(), is_made_again=st.sampled_from([True, True, False]))
    def user_deletes_the_job(self, is_held: bool, is_made_again: bool) -> None:
        """A finalizer may hold it. Most are made again at once."""
        body = self.job()
        assert body is not None
        if is_held:
            self.api.changed(self.jobs, {**body, "metadata": {**body["metadata"], "finalizers": ["example/held"]}})
        self.api.remove(self.jobs, body)
        if is_made_again and self.job() is None:
            self.user_makes_the_job()

    @rule(plural=st.sampled_from(sorted({*PLURALS} - {"pods", "jobs"})), which=st.integers(0, 5))
    def user_takes_a_label(self, plural: str, which: int) -> None:
        """By which the operator watches: to it, the object is gone. By pods' it knows how the job is made."""
        found = [body for body in self.api.all(plural) if JOB_UID in body["metadata"].get("labels", {})]
        if found:
            body = found[which % len(found)]
            if plural != "configmaps":  # the operator may label one again, and a job that runs needs it
                self.unlabelled.append((plural, body))
            self.set_label(plural, body, None)

    @rule(plural=st.sampled_from(PLURALS), which=st.integers(0, 5))
    def user_deletes_an_object(self, plural: str, which: int) -> None:
        found = [body for body in self.api.all(plural) if (plural, body["metadata"]["name"]) not in self.foreign]
        if found:
            self.api.remove(plural, found[which % len(found)])

    @rule(plural=st.sampled_from(["roles", "rolebindings"]), is_running=st.booleans())
    def user_takes_the_launchers_rights(self, plural: str, is_running: bool) -> None:
        if is_running:
            self.go_on(3)
        name = self.named("pi-launcher")
        body = self.api.find(plural, name)
        if body is not None and (plural, name) not in self.foreign:
            self.api.changed(plural, {**body, "rules" if plural == "roles" else "subjects": []})

    @rule()
    def user_deletes_the_keys_when_all_run(self) -> None:
        self.go_on(3)
        keys = self.api.find("secrets", "pi-ssh")
        if keys is not None and ("secrets", "pi-ssh") not in self.foreign:
            self.api.remove("secrets", keys)

    @rule(plural=st.sampled_from(sorted(FOREIGN)))
    def user_takes_a_name(self, plural: str) -> None:
        name = self.named(FOREIGN[plural])
        if self.api.find(plural, name) is None:
            body: Body = {"metadata": {"name": name}, "data": {"mine": "yes"}, "spec": {"containers": []}}
            self.foreign[plural, name] = copy.deepcopy(self.api.add(plural, body))

    @rule()
    def user_gives_names_back(self) -> None:
        for plural, name in list(self.foreign):
            self.api.drop(plural, {"metadata": self.foreign[plural, name]["metadata"]})
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
        self.end_launchers(code, lingers=lingers)

    @rule(code=st.sampled_from([0, 0, 1]), lingers=st.booleans())
    def a_launcher_ends_when_all_run(self, code: int, lingers: bool) -> None:
        self.go_on(3)
        self.end_launchers(code, lingers=lingers)

    @rule(which=st.integers(0, 5))
    def a_node_dies(self, which: int) -> None:
        self.on_pod(which, ("Running",), lambda pod: self.cluster.dead.add(pod["metadata"]["uid"]))

    @rule()
    def the_cluster_goes_on(self) -> None:
        self.cluster.go_on()

    @rule(made=st.integers(0, 4))
    def the_quota_shrinks(self, made: int) -> None:
        self.api.quota = made

    @rule(seconds=st.sampled_from([1, 7, 70, 400]))
    def time_passes(self, seconds: int) -> None:
        self.api.now += seconds

    # What the operators do.

    @rule(plural=st.sampled_from(WATCHED), most=st.integers(1, 3), leads=st.booleans())
    def events_come(self, plural: str, most: int, leads: bool) -> None:
        (self.leader if leads else self.old_leader).deliver(plural, most)

    @rule()
    def the_past_is_forgotten(self) -> None:
        """Whoever watches has to list again."""
        self.api.objects.forget()

    @rule(lost=st.lists(st.sampled_from(["", "request", "answer"]), max_size=6))
    def requests_and_answers_are_lost(self, lost: list[str]) -> None:
        self.api.lost = lost

    @rule(kills_in=st.one_of(st.none(), st.integers(0, 12)))
    def the_leader_plans(self, kills_in: int | None) -> None:
        self.leader.reconcile(kills_in)

    @rule(acts=st.integers(0, 4))
    def the_lease_is_lost_for_a_while(self, acts: int) -> None:
        self.leader.acts = acts
        self.leader.reconcile()

    @rule(halves=st.integers(0, 30), what=st.sampled_from(sorted(MEANWHILE)), number=st.integers(0, len(PLURALS) - 1))
    def the_leader_plans_and_meanwhile(self, halves: int, what: str, number: int) -> None:
        """Before a request is carried out, or before it is answered."""
        self.api.meanwhile = {halves: lambda: MEANWHILE[what](self, number)}
        self.leader.reconcile()
        self.api.meanwhile = {}

    @rule(behind_s=st.sampled_from([0, 5, 300]))
    def another_takes_the_lead(self, behind_s: int) -> None:
        """On another node, by another clock."""
        self.leader.behind_s = behind_s
        self.leader.start()

    @rule(behind_s=st.sampled_from([0, 5, 300]))
    def another_takes_the_lead_as_a_launcher_ends(self, behind_s: int) -> None:
        """What has succeeded is not run again."""
        self.go_on(3)
        before = self.won - set(self.ends)
        self.end_launchers(0, lingers=False)
        self.another_takes_the_lead(behind_s)
        self.go_on(3)
        won = self.won - set(self.ends) - before
        again = [
            pod
            for pod in self.cluster.pods("launcher", "Pending", "Running")
            if pod["metadata"]["labels"][JOB_UID] in won
        ]
        assert again == []

    @rule(rounds=st.integers(1, 3))
    def all_goes_on(self, rounds: int) -> None:
        self.go_on(rounds)

    @rule()
    def a_former_leader_plans(self) -> None:
        self.old_leader.reconcile()

    # What always holds.

    @invariant()
    def an_end_is_for_good(self) -> None:
        self.check_end()

    @invariant()
    def never_two_launchers(self) -> None:
        """Of one job: one of the same name may be made while the pods of an earlier one end."""
        jobs = [pod["metadata"]["labels"][JOB_UID] for pod in self.cluster.pods("launcher", "Pending", "Running")]
        assert len(jobs) == len(set(jobs))

    @invariant()
    def all_pods_of_a_job_are_of_one_make(self) -> None:
        makes = {
            (pod["metadata"]["labels"][JOB_UID], *make_of(pod).items()) for pod in self.cluster.pods() if role(pod)
        }
        assert len(makes) == len({uid for uid, *_ in makes})

    @invariant()
    def what_is_not_ours_is_not_touched(self) -> None:
        for key, body in self.foreign.items():
            assert self.api.find(*key) == body

    # What everything comes to.

    @rule()
    def disturbances_stop(self) -> None:
        self.settle()
        self.check_settled()

    @rule(what=st.sampled_from(sorted(MEANWHILE)), number=st.integers(0, len(PLURALS) - 1))
    def one_thing_happens_to_a_settled_job(self, what: str, number: int) -> None:
        """It alone has to give the operator cause to plan."""
        self.disturbances_stop()
        MEANWHILE[what](self, number)
        self.disturbances_stop()

    def teardown(self) -> None:
        if hasattr(self, "leader"):
            self.settle()
            self.check_settled()


def beginning(*dialects: str) -> dict[str, Any]:
    """The arguments of the first rule, for jobs of these dialects."""
    choices = st.builds(
        Choices,
        dialect=st.sampled_from(dialects),
        transport=st.sampled_from(["exec", "ssh"]),
        clean=st.sampled_from(["None", "Running", "All"]),
        waits=st.booleans(),
        restarts=st.tuples(*[st.sampled_from(["Never", "OnFailure", "ExitCode"])] * 2),
        limits=st.fixed_dictionaries(
            {},
            optional={"activeDeadlineSeconds": st.just(300), "ttlSecondsAfterFinished": st.sampled_from([0, 100])},
        ),
        update=st.sampled_from(["", "RollingUpdate", "OnDelete"]),
        has_resume_specs=st.booleans(),
        is_large=st.booleans(),
        idles=st.booleans(),
    )
    return {"choices": choices, "gang": st.sampled_from(["", "volcano"]), "is_running": st.booleans()}


# To shrink a failure takes longer than to read it.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
SETTINGS = settings(max_examples=50, stateful_step_count=40, phases=PHASES, report_multiple_bugs=False)
