"""Jobs of kubeflow's and of T9k's kind that have one name: their objects would have the same, and only one has them."""

from __future__ import annotations

from mpijobs import mpijob
from settled_job import true_of
from simulated_api import SimulatedApi
from simulated_cluster import Cluster, controller
from stepped_operator import SteppedOperator

from tests.objects import T9K

OBJECTS = (("configmaps", "pi-config"), ("secrets", "pi-ssh"), ("services", "pi"), ("pods", "pi-worker-0"))


def work(operator: SteppedOperator, for_s: float) -> None:
    """Do what is due, and what becomes due meanwhile."""
    end = operator.api.now + for_s
    while operator.api.now < end:
        operator.deliver_all()
        if operator.has_cause():
            operator.step()
        else:
            operator.api.now += 1


def owners(api: SimulatedApi) -> set[str]:
    """The uids of the jobs that have the objects whose names both want."""
    found = [api.find(*place) for place in OBJECTS]
    return {controller(body) for body in found if body is not None}


def test_a_job_that_waited_for_t9ks_of_its_name_runs_once_that_is_gone() -> None:
    api = SimulatedApi()
    operator, cluster = SteppedOperator(api), Cluster(api)
    first = api.add(f"mpijobs.{T9K}", mpijob("t9k", {"spec/transport": "ssh"}))["metadata"]["uid"]
    work(operator, for_s=5)
    assert owners(api) == {first}
    for pod in cluster.pods():
        cluster.run(pod)

    second = api.add("mpijobs", mpijob("v2beta1", {"spec/transport": "ssh"}))["metadata"]["uid"]
    work(operator, for_s=200)  # it tries again each minute
    assert owners(api) == {first}
    assert [body for body in api.objects.stored.values() if controller(body) == second] == []
    waits = api.find("mpijobs", "pi")
    assert waits is not None
    assert "ErrResourceExists" in true_of(waits)
    assert "Running" not in true_of(waits)
    assert [reason for _, reason, _ in operator.events].count("ErrResourceExists") == 1

    api.objects.remove((f"mpijobs.{T9K}", "default", "pi"))
    api.objects.collect()
    work(operator, for_s=5)
    cluster.finish_deletions()
    work(operator, for_s=70)
    assert owners(api) == {second}
    assert len(cluster.pods("worker")) == 2
    cluster.run_jobs()
    work(operator, for_s=5)
    for pod in cluster.pods():
        cluster.run(pod)
    work(operator, for_s=5)
    runs = api.find("mpijobs", "pi")
    assert runs is not None
    assert runs["metadata"]["uid"] == second
    assert "Running" in true_of(runs)
    assert "ErrResourceExists" not in true_of(runs)
