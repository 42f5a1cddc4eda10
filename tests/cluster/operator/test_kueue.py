"""What `kubectl mpi` shows of jobs in a queue of a real Kueue, and that our operator runs those it lets in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cluster.images import is_asked_for
from tests.cluster.kubectl_mpi import kubectl_mpi
from tests.cluster.local.daemons import until
from tests.cluster.operator.kueue import QUEUE, URGENT, queue, running
from tests.cluster.operator.mpijob import MpiJob
from tests.cluster.operators.programs import KUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.kube import Api, Namespace
    from tests.cluster.local.cluster import LocalCluster
    from tests.cluster.operator.release import Release
    from tests.cluster.operator.submitted import Submitted

_DEADLINE_S = 120.0


@pytest.fixture
def kueue(local: LocalCluster, api: Api, installed: Release) -> Iterator[None]:
    """Kueue, running: after our operator, which defines what it looks for."""
    if not (KUEUE.binary.exists() or is_asked_for("kueue")):
        pytest.skip("Kueue is not built, which takes ten minutes: CLUSTER_IMAGES=kueue builds it")
    KUEUE.build(print)
    with running(api, os.environ["KUBECONFIG"]):
        yield


def queued(name: str, in_queue: str = QUEUE, *, priority: str = "") -> MpiJob:
    """A job of three pods, whose launcher waits for `go_on`."""
    job = MpiJob(name=name).gated()
    labels = {"kueue.x-k8s.io/queue-name": in_queue, "kueue.x-k8s.io/priority-class": priority}
    job.body["metadata"]["labels"] = {name: value for name, value in labels.items() if value}
    job.policy["suspend"] = True
    return job


def until_listed(namespace: Namespace, *expected: str) -> None:
    """Wait until `kubectl mpi list` shows these names, states, queues and positions."""

    def is_listed() -> bool:
        table = kubectl_mpi(namespace, "list")
        print(table)  # shown with a failure
        rows = [line.split() for line in table.splitlines()[1:]]
        return sorted(" ".join((*row[:2], *row[-2:])) for row in rows) == [*expected]

    until(f"that `kubectl mpi list` shows {expected}", is_listed, _DEADLINE_S)


def until_why(namespace: Namespace, job: str, *expected: str) -> None:
    """Wait until `kubectl mpi why` says all of this: Kueue tells it a moment after the position."""
    until(
        f"that why {job} says {expected}",
        lambda: all(one in kubectl_mpi(namespace, "why", job) for one in expected),
        _DEADLINE_S,
    )


@pytest.mark.timeout(1800)  # the build
@pytest.mark.usefixtures("kueue")
def test_where_jobs_are_in_a_queue_and_why(namespace: Namespace, submit: Callable[[MpiJob], Submitted]) -> None:
    with queue(namespace, pods=3):
        first = submit(queued("first"))
        first.until_condition("Running")
        submit(queued("next"))
        submit(queued("lost", "nowhere"))
        until_listed(namespace, "first Running night -", "lost Queued nowhere -", "next Queued night 1")
        urgent = submit(queued("urgent", priority=URGENT))
        until_listed(
            namespace, "first Running night -", "lost Queued nowhere -", "next Queued night 2", "urgent Queued night 1"
        )
        until_why(namespace, "next", "next has waited in queue night to be admitted for", ", at position 2. Kueue:")
        until_why(namespace, "next", "couldn't assign flavors to pod set", "insufficient unused quota for pods")
        until_why(namespace, "lost", "doesn't exist")

        first.go_on()
        urgent.until_condition("Running")
        until_listed(
            namespace,
            "first Succeeded night -",
            "lost Queued nowhere -",
            "next Queued night 1",
            "urgent Running night -",
        )
