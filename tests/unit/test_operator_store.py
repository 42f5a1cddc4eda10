"""The caches: whatever order events and answers come in, the store ends as the API server is."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.job.model import T9K_GROUP
from agents.kube.kinds import (
    BATCH_JOB,
    CONFIG_MAP,
    MPI_JOB_T9K,
    MPI_JOB_V1,
    MPI_JOB_V2BETA1,
    POD,
    SCHEDULER_PLUGINS_POD_GROUP,
    SECRET,
    T9K_POD_GROUP,
    VOLCANO_POD_GROUP,
    Kind,
)
from agents.operator.caches import Caches, Key, watched
from agents.operator.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

Body = dict[str, Any]


def pod(name: str = "p", uid: str = "u", version: int = 1, phase: str = "Pending", job: str = "j", **meta: Any) -> Body:
    labels = {"mpi-agents/job-uid": job}
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version), "labels": labels, **meta}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": phase}}


def store() -> tuple[Store, list[tuple[str | None, str | None]]]:
    """A store, and the phases of what it tells."""
    told = list[tuple[str | None, str | None]]()
    one = Store(POD, lambda before, after: told.append((phase(before), phase(after))))
    return one, told


def phase(body: Body | None) -> str | None:
    return None if body is None else body["status"]["phase"]


def identities(bodies: Iterable[Body]) -> list[tuple[str, str]]:
    return sorted((one["metadata"]["uid"], one["metadata"]["resourceVersion"]) for one in bodies)


def seen(one: Store) -> list[tuple[str, str]]:
    return identities(one.all())


def test_newer_replaces_older_and_not_the_other_way_round() -> None:
    one, told = store()
    one.put(pod(version=9, phase="Pending"))
    one.put(pod(version=10, phase="Running"))  # as texts, 9 is more than 10
    one.put(pod(version=9, phase="Pending"))
    assert phase(one.get("ns", "p")) == "Running"
    assert told == [(None, "Pending"), ("Pending", "Running")]


def test_what_differs_in_its_version_alone_is_taken_and_not_told() -> None:
    one, told = store()
    one.put(pod(version=1))
    one.put(pod(version=2, managedFields=[{"manager": "x"}]))
    assert seen(one) == [("u", "2")]
    assert told == [(None, "Pending")]


def test_what_we_wrote_ourselves_is_taken_and_not_told_nor_is_its_echo() -> None:
    one, told = store()
    one.put(pod(version=5), notifies=False)
    one.event("MODIFIED", pod(version=5))
    assert (seen(one), told) == ([("u", "5")], [])


def test_the_echo_of_what_we_are_writing_is_no_news_though_it_be_quicker_than_the_answer() -> None:
    told = list[Any]()
    one = Store(MPI_JOB_V1, lambda _before, after: told.append(after))

    def version(number: int, status: Body, **spec: Any) -> Body:
        body = job()
        return body | {"metadata": body["metadata"] | {"resourceVersion": str(number)}, "status": status, "spec": spec}

    ours, theirs = ({"conditions": [{"type": "CreationRefused", "message": words}]} for words in "ab")
    one.put(version(1, {}))
    with one.writing("j", ours):
        one.event("MODIFIED", version(2, {**ours, "lastReconcileTime": "10:00:00"}))
        assert len(told) == 1
        one.put(version(2, ours), notifies=False)
        one.event("MODIFIED", version(3, ours, suspend=True))
        one.event("MODIFIED", version(4, theirs, suspend=True))
    one.event("MODIFIED", version(5, ours, suspend=True))
    assert [each["metadata"]["resourceVersion"] for each in told] == ["1", "3", "4", "5"]


def test_an_older_deletion_leaves_what_has_come_back() -> None:
    """A label that was taken away and set again: the second answer came before the first event."""
    one, _ = store()
    one.put(pod(version=7))
    one.event("DELETED", pod(version=5))
    assert seen(one) == [("u", "7")]


def test_a_deletion_of_ours_outlives_events_of_before() -> None:
    one, _ = store()
    one.put(pod(version=1))
    one.remove("ns", "p", "u")
    one.event("MODIFIED", pod(version=7))
    one.replace([pod(version=7)], "7")
    one.put(pod(version=7))
    assert seen(one) == []
    one.event("DELETED", pod(version=8))
    one.put(pod(version=7))
    assert seen(one) == []


def test_nothing_is_kept_of_a_deletion_that_the_watch_has_told_before_its_answer_came() -> None:
    """An operator deletes objects for years."""
    one, told = store()
    one.put(pod(version=1))
    one.event("DELETED", pod(version=5))
    one.remove("ns", "p", "u")
    assert told == [(None, "Pending"), ("Pending", None)]
    one.event("ADDED", pod(version=6))
    assert seen(one) == [("u", "6")]


def test_a_list_of_one_namespace_leaves_the_others() -> None:
    one, _ = store()
    one.put(pod("a", "a", 5))
    one.replace([], "10", namespace="other")
    assert seen(one) == [("a", "5")]


def test_a_list_of_one_namespace_revives_nothing_in_another() -> None:
    one, _ = store()
    one.put(pod("a", "a", 1))
    one.remove("ns", "a", "a")
    one.replace([], "6", namespace="other")
    one.event("MODIFIED", pod("a", "a", 5), namespace="ns")  # older than the deletion
    assert seen(one) == []
    one.replace([], "9", namespace="ns")
    one.event("ADDED", pod("a", "a", 10), namespace="ns")
    assert seen(one) == [("a", "10")]


def test_objects_are_found_by_their_job() -> None:
    one, _ = store()
    one.put(pod("a", "a", 1, job="x"))
    one.put(pod("b", "b", 2, job="x"))
    one.put(pod("b", "b", 3, job="y"))
    assert [each["metadata"]["name"] for each in one.of_job("x")] == ["a"]
    assert [each["metadata"]["name"] for each in one.of_job("y")] == ["b"]
    one.event("DELETED", pod("a", "a", 4, job="x"))
    assert one.of_job("x") == []


def test_pods_marked_deleted_are_so_until_the_api_says_more() -> None:
    one, told = store()
    one.put(pod("a", "a", 1))
    one.mark_deleted([pod("a", "a", 1), pod("gone", "g", 1)], "2026-01-01T00:00:00Z")
    assert one.of_job("j")[0]["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert len(told) == 2
    one.put(pod("a", "a", 2, phase="Running"))
    assert "deletionTimestamp" not in one.of_job("j")[0]["metadata"]


# What happens on the API server: each deed is an event of the watch, and may be an answer to us that comes at any time
# before or after it.
DEEDS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["write", "delete"]), st.booleans()), max_size=14)


class Server:
    """The pods that exist, and the events and answers about them."""

    def __init__(self) -> None:
        self.truth: dict[str, Body] = {}
        self.events: list[tuple[str, Body]] = []
        self.answers: list[Body] = []

    def do(self, version: int, name: str, deed: str, answered: bool) -> None:
        if deed == "write":
            uid = self.truth[name]["metadata"]["uid"] if name in self.truth else f"{name}-{version}"
            self.truth[name] = pod(name, uid, version, phase=str(version))
            self.events.append(("MODIFIED", self.truth[name]))
            if answered:
                self.answers.append(self.truth[name])
        elif name in self.truth:
            uid = self.truth.pop(name)["metadata"]["uid"]
            self.events.append(("DELETED", pod(name, uid, version)))


@given(DEEDS, st.data())
def test_any_order_of_events_and_answers_ends_in_the_truth(
    deeds: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    server = Server()
    for version, deed in enumerate(deeds, start=1):
        server.do(version, *deed)
    events, answers = server.events, server.answers
    one, _ = store()
    while events or answers:
        if events and (not answers or data.draw(st.booleans())):
            one.event(*events.pop(0))
        else:
            one.put(answers.pop(data.draw(st.integers(0, len(answers) - 1))))
    assert seen(one) == identities(server.truth.values())


@given(DEEDS, st.integers(0, 14), st.data())
def test_a_list_at_any_time_ends_in_the_truth(deeds: list[tuple[str, str, bool]], at: int, data: st.DataObject) -> None:
    """The watch breaks off, a list is made at `at`, and answers to us come when they like."""
    server = Server()
    listed: tuple[list[Body], int] = ([], 0)
    for version, deed in enumerate(deeds, start=1):
        if version == at:
            listed = (list(server.truth.values()), version - 1)
            server.events.clear()
        server.do(version, *deed)
    answers = server.answers
    one, _ = store()
    early = [answers.pop(0) for _ in range(data.draw(st.integers(0, len(answers))))]
    for body in early:
        one.put(body)
    one.replace(listed[0], str(listed[1]))
    for event in server.events:
        one.event(*event)
    for body in answers:
        one.put(body)
    assert seen(one) == identities(server.truth.values())


def test_the_time_of_a_status_s_writing_alone_is_no_news() -> None:
    """It is written with each try to make what is refused, which would bring the next try at once."""
    told = list[Any]()
    one = Store(MPI_JOB_V1, lambda _before, after: told.append(after))

    def written(version: int, at: str, reason: str) -> Body:
        status = {"lastReconcileTime": at, "conditions": [{"type": "CreationRefused", "reason": reason}]}
        body = job()
        return body | {"metadata": body["metadata"] | {"resourceVersion": str(version)}, "status": status}

    one.put(written(1, "10:00:00", "a"))
    one.put(written(2, "10:00:01", "a"))
    one.event("MODIFIED", written(3, "10:00:02", "a"))
    assert len(told) == 1
    assert one.get("ns", "pi") == written(3, "10:00:02", "a")
    one.put(written(4, "10:00:03", "b"))
    assert len(told) == 2


# One job's objects


def owned(body: Body, uid: str, kind: str = "MPIJob", name: str = "pi") -> Body:
    owner = {"kind": kind, "name": name, "uid": uid, "controller": True}
    return body | {"metadata": body["metadata"] | {"ownerReferences": [owner]}}


def job(uid: str = "j", version: int = 1, **status: Any) -> Body:
    metadata = {"name": "pi", "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": metadata, "status": status}


def test_a_job_is_told_of_what_is_made_for_it() -> None:
    told = list[Key]()
    caches = Caches([MPI_JOB_V1], on_job=told.append)
    caches.store(POD).put(owned(pod("early", "e", 1), "j"))
    assert told == []  # the job is not known yet
    caches.jobs().put(job())
    caches.store(POD).put(owned(pod("a", "a", 2), "j"))
    caches.store(POD).event("DELETED", pod("a", "a", 3))
    caches.store(POD).put(owned(pod("b", "b", 4, job="another"), "another"))
    caches.jobs().remove("ns", "pi", "j")
    assert told == [Key("ns", "pi")] * 4


def test_a_job_s_objects_are_those_that_it_controls() -> None:
    caches = Caches([MPI_JOB_V1])
    caches.store(POD).put(owned(pod("worker", "1", 1), "j"))
    caches.store(POD).put(owned(pod("launcher", "2", 2), "batch", "Job", "pi-launcher"))
    caches.store(POD).put(owned(pod("another's", "6", 7), "other", "Job", "other-launcher"))
    caches.store(POD).put(owned(pod("stranger", "3", 3), "stranger"))
    caches.store(POD).put(pod("orphan", "4", 4))
    caches.store(BATCH_JOB).put(owned(pod("batch", "batch", 5), "j"))
    caches.store(CONFIG_MAP).put(owned(pod("stranger", "5", 6), "stranger"))
    observed = caches.observe(job(), frozenset(), {})
    assert [each["metadata"]["name"] for each in observed.pods] == ["worker", "launcher"]
    assert observed.launcher_job is not None
    assert observed.config_map is None


@pytest.mark.parametrize("name", ["pi-worker-0", "pi-launcher-x1"])
@pytest.mark.parametrize("kind", ["StatefulSet", "Job", "MPIJob"])
def test_a_pod_of_a_batch_job_is_never_a_worker_and_one_of_anything_else_is_none_of_a_job_s(
    name: str, kind: str
) -> None:
    """Whatever its labels."""
    caches, by = Caches([MPI_JOB_V1]), {"kind": kind, "name": "pi-launcher", "uid": "theirs", "controller": True}
    made = pod(name, "1", 1)
    made["metadata"]["ownerReferences"] = [by, {"kind": "MPIJob", "name": "pi", "uid": "j"}]
    caches.store(POD).put(made)
    is_launcher = (kind, name) == ("Job", "pi-launcher-x1")
    assert len(caches.observe(job(), frozenset(), {}).pods) == is_launcher


def test_the_launchers_pod_that_was_deleted_last_is_kept() -> None:
    """How it failed may not be written yet. Only that of the present batch Job, and as long as there is the job."""
    caches, versions = Caches([MPI_JOB_V1]), count(1)

    def gone() -> str:
        found = caches.observe(job(), frozenset(), {}).gone_launcher
        return "" if found is None else str(found["metadata"]["name"])

    def make_and_delete(name: str, by: str, **meta: Any) -> None:
        caches.store(POD).put(owned(pod(name, name, next(versions), **meta), by, "Job", "pi-launcher"))
        caches.store(POD).event("DELETED", pod(name, name, next(versions), **meta))

    make_and_delete("early", "batch")  # the job is not known yet
    caches.jobs().put(job())
    caches.store(BATCH_JOB).put(owned(pod("batch", "batch", 1), "j"))
    make_and_delete("theirs", "batch", namespace="theirs")
    make_and_delete("pi-worker-0", "batch")
    assert gone() == ""
    make_and_delete("first", "batch")
    make_and_delete("second", "batch")
    assert gone() == "second"
    caches.store(POD).put(owned(pod("worker", "w", next(versions)), "j"))
    caches.store(POD).event("DELETED", pod("worker", "w", next(versions)))
    assert gone() == "second"
    make_and_delete("earlier", "another")
    assert gone() == ""
    make_and_delete("third", "batch")
    assert gone() == "third"
    caches.jobs().put(job(version=2, conditions=[{"type": "Failed", "status": "True"}]))
    assert gone() == ""  # of an ended job none is kept: there may be very many
    make_and_delete("cleaned-up", "batch")
    assert gone() == ""


def test_of_a_job_that_is_gone_no_launcher_is_kept() -> None:
    caches = Caches([MPI_JOB_V1])
    caches.jobs().put(job())
    caches.store(BATCH_JOB).put(owned(pod("batch", "batch", 1), "j"))
    caches.store(POD).put(owned(pod("first", "first", 1), "batch", "Job", "pi-launcher"))
    caches.store(POD).event("DELETED", pod("first", "first", 2))
    assert caches.observe(job(), frozenset(), {}).gone_launcher is not None
    caches.jobs().remove("ns", "pi", "j")
    assert caches.observe(job(), frozenset(), {}).gone_launcher is None


def test_what_another_namespace_has_is_none_of_a_job_s_whatever_its_label_and_owner_say() -> None:
    """A pod there that succeeds would be the job's launcher."""
    caches = Caches([MPI_JOB_V1])
    caches.store(POD).put(owned(pod("pi-launcher", "1", 1, "Succeeded", namespace="theirs"), "j"))
    caches.store(CONFIG_MAP).put(owned(pod("pi-config", "2", 2, namespace="theirs"), "j"))
    observed = caches.observe(job(), frozenset(), {})
    assert (observed.pods, observed.config_map) == ((), None)


@pytest.mark.parametrize(
    ("scheduler", "kind"),
    [("volcano", VOLCANO_POD_GROUP), ("t9k", T9K_POD_GROUP), ("coscheduling", SCHEDULER_PLUGINS_POD_GROUP)],
)
def test_pod_groups_are_those_of_the_configured_scheduler(scheduler: str, kind: Kind) -> None:
    caches = Caches([MPI_JOB_V1], scheduler)
    assert set(watched(scheduler)) - set(watched("")) == {kind}
    caches.store(kind).put(owned(pod("pi", "g", 1), "j"))
    group = caches.observe(job(), frozenset(), {}).pod_group
    assert group is not None
    assert group["metadata"]["uid"] == "g"


def test_a_secret_is_known_by_its_metadata_alone() -> None:
    caches = Caches([MPI_JOB_V1])
    caches.store(SECRET).put(owned(pod("pi-ssh", "s", 1), "j") | {"data": {"ssh-privatekey": "x"}, "type": "y"})
    secret = caches.observe(job(), frozenset(), {}).secret
    assert secret is not None
    assert secret.keys() == {"metadata"}


def test_jobs_of_two_groups_and_one_name_are_two() -> None:
    told = list[Key]()
    caches = Caches([MPI_JOB_V2BETA1, MPI_JOB_T9K], on_job=told.append)
    caches.jobs().put(job("k"))
    caches.jobs(T9K_GROUP).put({**job("t"), "apiVersion": "batch.tensorstack.dev/v1beta1"})
    caches.store(POD).put(owned(pod("pi-worker-0", "w", 1, job="t"), "t"))
    assert told == [Key("ns", "pi"), Key("ns", "pi", T9K_GROUP), Key("ns", "pi", T9K_GROUP)]
    assert [str(key) for key in told[:2]] == ["ns/pi", "ns/pi (batch.tensorstack.dev)"]
    assert len(caches.all_jobs()) == 2
    assert caches.store(MPI_JOB_V1) is caches.jobs()  # by whichever version they are read
    assert caches.store(MPI_JOB_T9K) is caches.jobs(T9K_GROUP)
