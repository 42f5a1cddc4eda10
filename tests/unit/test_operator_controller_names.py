"""The loop around plan where a name is taken: by another owner, by an old object of ours, by one without its label."""

from __future__ import annotations

import pytest
from looped_plan import KEY, Loop, create, errors, made, steps

from agents.kube.errors import AlreadyExistsError, RejectedError
from agents.kube.kinds import CONFIG_MAP, POD


def test_a_name_that_another_has_is_told_to_plan_and_tried_again_in_a_minute() -> None:
    loop = Loop(steps(create("pi-config", CONFIG_MAP)))
    path = "/api/v1/namespaces/team/configmaps/pi-config"
    loop.api.answers["create", "pi-config"] = AlreadyExistsError("a", 409, "AlreadyExists")
    loop.api.answers["get", path] = made("pi-config", owner={"kind": "Deployment", "name": "pi", "uid": "x"})
    loop.run()
    assert loop.next_after() == pytest.approx(0.05, abs=0.06)
    loop.run()
    assert loop.observed[1].name_conflicts == {("ConfigMap", "pi-config")}
    assert loop.caches.store(CONFIG_MAP).all() == []
    while loop.queue.get(0):
        loop.queue.done(KEY)
    assert loop.next_after() == pytest.approx(60, abs=0.1)
    loop.run()
    assert loop.observed[2].name_conflicts == frozenset()


def test_what_we_made_and_did_not_know_of_is_taken_up() -> None:
    loop = Loop(steps(create("pi-worker-0")))
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    loop.api.answers["get", "/api/v1/namespaces/team/pods/pi-worker-0"] = made("pi-worker-0")
    loop.run()
    loop.run()
    assert [each["metadata"]["name"] for each in loop.observed[1].pods] == ["pi-worker-0"]
    assert loop.observed[1].name_conflicts == frozenset()


def test_what_lost_its_label_gets_it_again_or_plan_is_told_why_not() -> None:
    """The chart grants no patch of pods: without a word the job would wait for ever."""
    bare, again = made("pi-worker-0"), steps(create("pi-worker-0"))
    del bare["metadata"]["labels"]
    path = "/api/v1/namespaces/team/pods/pi-worker-0"
    loop = Loop(again, again, again)
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    loop.api.answers["get", path] = bare
    loop.api.answers["patch", path] = RejectedError("pods is forbidden", 403)
    loop.run()
    loop.run()
    assert loop.observed[1].rejected == {
        ("Pod", "pi-worker-0"): "it exists without its label mpi-agents/job-uid=j, by which the operator finds it: "
        "pods is forbidden"
    }
    del loop.api.answers["patch", path]
    loop.run()
    loop.run()
    assert [each["metadata"]["name"] for each in loop.observed[3].pods] == ["pi-worker-0"]
    assert loop.observed[3].rejected == {}


def test_what_an_earlier_job_of_this_name_left_is_waited_for() -> None:
    loop = Loop(steps(create("pi-worker-0"), create("never")))
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    earlier = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "pi", "uid": "earlier"}
    loop.api.answers["get", "/api/v1/namespaces/team/pods/pi-worker-0"] = made("pi-worker-0", owner=earlier)
    loop.run()
    assert ("create", "never") not in loop.api.asked
    assert errors(loop, "Conflict") == 1
    loop.run()
    assert loop.observed[1].name_conflicts == frozenset()


def test_the_end_of_what_an_earlier_job_of_this_name_left_has_the_later_one_planned() -> None:
    """Its last pods may take their grace period, and retries are half a minute apart by then."""
    loop = Loop()
    loop.on_job = loop.queue.add
    earlier = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "pi", "uid": "earlier"}
    left, ours = made("pi-worker-0", owner=earlier), made("pi-worker-1", uid="2")
    for one in (left, ours):
        loop.caches.store(POD).event("ADDED", one)
    while (key := loop.queue.get(0)) is not None:
        loop.queue.done(key)
    loop.caches.store(POD).event("DELETED", left)
    assert loop.queue.get(0) == KEY


def test_what_another_kind_s_job_of_this_name_has_is_taken() -> None:
    loop = Loop(steps(create("pi-worker-0")))
    loop.api.answers["create", "pi-worker-0"] = AlreadyExistsError("a", 409, "AlreadyExists")
    other = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob", "name": "pi", "uid": "t"}
    loop.api.answers["get", "/api/v1/namespaces/team/pods/pi-worker-0"] = made("pi-worker-0", owner=other)
    loop.run()
    loop.run()
    assert loop.observed[1].name_conflicts == {("Pod", "pi-worker-0")}
