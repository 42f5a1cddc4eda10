"""Lists and watches, by an API server that is a script."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from agents.kube.errors import ApiError, GoneError, NotFoundError, RejectedError, UnavailableError
from agents.kube.kinds import MPI_JOB_V1, POD, ROLE, SECRET, Kind
from agents.operator.informer import Informer
from agents.operator.metrics import Metrics
from agents.operator.store import Store
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

Body = dict[str, Any]
Keep = Callable[[Body], Body]
Answer = Body | list[Body | ApiError]
PATIENCE_S = 20.0


def pod(name: str, version: int) -> Body:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}}


def page(version: int, *names: str, token: str = "") -> Body:
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return {"metadata": metadata, "items": [pod(name, version) for name in names]}


def event(kind: str, name: str, version: int) -> Body:
    return {"type": kind, "object": pod(name, version)}


class Watch:
    """The events that are given, and then silence until it is stopped, or its end."""

    def __init__(self, events: list[Body | ApiError], *, lasts: bool) -> None:
        self._events, self._lasts = events, lasts
        self.silent, self.stopped = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[Body]:
        for each in self._events:
            if isinstance(each, ApiError):
                raise each
            yield each
        self.silent.set()
        if self._lasts:
            assert self.stopped.wait(PATIENCE_S)

    def stop(self) -> None:
        self.stopped.set()


class Api:
    """Answers in their order; the last watch lasts. `asked` is what was asked for."""

    def __init__(self, *answers: Answer | ApiError) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str]] = []
        self.partial: set[bool] = set()
        self.over = threading.Event()
        self.last: Watch | None = None

    def list(self, path: str, *, keep: Keep, token: str, partial: bool, labelSelector: str) -> Body:  # noqa: N803
        self.asked.append(("list", token))
        self.partial.add(partial)
        answer = self._next()
        assert isinstance(answer, dict)
        return answer | {"items": [keep(each) for each in answer["items"]]}

    def watch(self, path: str, *, version: str, timeout_s: int, partial: bool, **_query: str) -> Watch:
        self.asked.append(("watch", version))
        self.partial.add(partial)
        events = self._next()
        assert isinstance(events, list)
        watch = Watch(events, lasts=not self._answers)
        if not self._answers:
            self.last = watch
            self.over.set()
        return watch

    def _next(self) -> Answer:
        answer = self._answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


class Pauses(threading.Event):
    """The end of an informer that takes no pause: keeps how long each was to be."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.taken.append(timeout or 0.0)
        return self.is_set()


def run(api: Api, kind: Kind = POD, pauses: Pauses | None = None) -> tuple[Informer, Store, Metrics]:
    """Have the script played to its end."""
    store, metrics = Store(kind), Metrics()
    informer = Informer(api, store, metrics)  # type: ignore[arg-type]
    informer.stopping = pauses or informer.stopping
    informer.start()
    assert api.over.wait(PATIENCE_S), api.asked
    assert api.last is not None
    assert api.last.silent.wait(PATIENCE_S), api.asked
    return informer, store, metrics


def end(informer: Informer) -> None:
    informer.stop()
    until(lambda: not informer.is_alive, "the end of the thread")


def restarts(metrics: Metrics, why: str) -> float:
    labels = {"kind": "pods", "why": why}
    return metrics.registry.get_sample_value("mpi_operator_watch_restarts_total", labels) or 0.0


def names(store: Store) -> list[str]:
    return sorted(each["metadata"]["name"] for each in store.all())


def test_pages_make_one_list_and_the_watch_begins_where_it_was_made() -> None:
    api = Api(page(10, "a", token="t"), page(10, "b"), [event("ADDED", "c", 11), event("DELETED", "a", 12)])
    informer, store, _ = run(api)
    end(informer)
    assert informer.synced.is_set()
    assert api.asked == [("list", ""), ("list", "t"), ("watch", "10")]
    assert names(store) == ["b", "c"]


def test_of_a_long_list_no_more_is_held_than_is_kept() -> None:
    """Whole, the pods of a large cluster would not fit into the operator's memory limit."""

    class Whole(dict[str, Any]):
        """A dict that tells whether it is still held."""

    class Pages(Api):
        def __init__(self) -> None:
            super().__init__([])
            self.specs: list[weakref.ref[Whole]] = []
            self.held = 0

        def list(self, path: str, *, keep: Keep, token: str, partial: bool, labelSelector: str) -> Body:  # noqa: N803
            kept = []
            for number in range(5):
                whole = Whole(containers=[{"name": "mpi", "image": "x"}])
                self.specs.append(weakref.ref(whole))
                kept.append(keep(pod(f"pod-{number}", 10) | {"spec": whole}))
                del whole
                self.held = max(self.held, sum(spec() is not None for spec in self.specs))
            return page(10) | {"items": kept}

    api = Pages()
    informer, store, _ = run(api)
    end(informer)
    assert len(names(store)) == 5
    assert api.held == 0


@pytest.mark.parametrize(("kind", "partial"), [(SECRET, True), (POD, False)])
def test_of_secrets_no_more_than_metadata_is_asked_for(kind: Kind, partial: bool) -> None:
    api = Api(page(10, "a"), [event("ADDED", "c", 11)])
    informer, _, _ = run(api, kind)
    end(informer)
    assert api.partial == {partial}


def test_a_watch_that_ends_goes_on_where_it_was_also_by_bookmarks() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}
    api = Api(page(10), [event("ADDED", "a", 11)], [bookmark], [event("ADDED", "b", 41)])
    informer, store, metrics = run(api)
    end(informer)
    assert api.asked == [("list", ""), ("watch", "10"), ("watch", "11"), ("watch", "40")]
    assert names(store) == ["a", "b"]
    assert restarts(metrics, "ended") == 2


@pytest.mark.parametrize(
    "gone",
    [
        [GoneError("too old", 410)],
        [GoneError("too old resource version", 410)],
        GoneError("too old", 410),
    ],
    ids=["in the watch", "as an event", "at once"],
)
def test_a_watch_that_is_too_old_begins_with_a_list(gone: Any) -> None:
    api = Api(page(10, "a", "b"), [event("ADDED", "c", 11)], gone, page(20, "b"), [])
    informer, store, metrics = run(api)
    end(informer)
    assert api.asked[-2:] == [("list", ""), ("watch", "20")]
    assert names(store) == ["b"]
    assert restarts(metrics, "gone") == 1


@pytest.mark.parametrize("failure", [UnavailableError("no answer"), UnavailableError("etcd", 500)])
def test_a_watch_that_breaks_off_goes_on_without_a_list(failure: Any) -> None:
    api = Api(page(10), [event("ADDED", "a", 11), failure], [])
    informer, store, metrics = run(api)
    assert informer.complaint == ""
    end(informer)
    assert api.asked == [("list", ""), ("watch", "10"), ("watch", "11")]
    assert names(store) == ["a"]
    assert restarts(metrics, "error") == 1


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (POD, RejectedError("no", 403), "the operator's role does not allow list and watch of pods in all namespaces"),
        (
            ROLE,
            RejectedError("no", 403),
            "the operator's role does not allow list and watch of roles.rbac.authorization.k8s.io in all namespaces",
        ),
        (
            MPI_JOB_V1,
            NotFoundError("no", 404),
            "the API server has no mpijobs in kubeflow.org/v1: is their CRD installed?",
        ),
        (POD, UnavailableError("no answer from x: refused"), "no answer from x: refused"),
    ],
)
def test_why_it_can_t_list_is_said_once(
    kind: Kind, error: ApiError, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(error, error, page(1), [])
    with caplog.at_level("INFO"):
        informer, _, _ = run(api, kind)
    end(informer)
    assert [each.getMessage() for each in caplog.records] == [
        f"{kind.resource} can't be watched: {words}",
        f"watching {kind.resource} again",
    ]


def test_a_page_that_is_too_old_begins_the_list_anew() -> None:
    api = Api(page(10, "a", token="t"), GoneError("expired", 410), page(11, "b"), [])
    informer, store, _ = run(api)
    end(informer)
    assert api.asked == [("list", ""), ("list", "t"), ("list", ""), ("watch", "11")]
    assert names(store) == ["b"]


def test_lists_that_are_too_old_each_time_are_told_and_not_asked_for_at_full_speed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Here after a watch that was too old: what comes before the first list is told as well."""
    expired = GoneError("expired", 410)
    api = Api(page(10), [event("ADDED", "a", 11)], expired, expired, expired, page(20, "b"), [])
    with caplog.at_level("INFO"):
        informer, store, _ = run(api)
    end(informer)
    assert names(store) == ["b"]
    assert [each.getMessage() for each in caplog.records] == [
        "pods can't be watched: expired",
        "watching pods again",
    ]


@pytest.mark.parametrize(
    ("script", "grow"),
    [
        ([page(10), *[[UnavailableError("reset")]] * 6], True),
        ([page(10), *[[UnavailableError("etcd", 500)]] * 6], True),
        ([page(10), *[GoneError("too old", 410), page(10)] * 6], True),
        ([page(10), *[[event("ADDED", "a", 11), UnavailableError("reset")]] * 6], False),
    ],
    ids=["breaks off", "an error event", "too old at once", "brings something"],
)
def test_watches_that_break_off_as_soon_as_they_begin_wait_longer_each_time(
    script: list[Any], monkeypatch: pytest.MonkeyPatch, *, grow: bool
) -> None:
    monkeypatch.setattr("agents.operator.informer.LASTING_S", float("inf"))  # by this machine's clock
    pauses = Pauses()
    informer, _, _ = run(Api(*script, []), pauses=pauses)
    taken = list(pauses.taken)
    end(informer)
    most = [0.2 * 2**number if grow else 0.2 for number in range(6)]
    assert all(full / 2 <= pause <= full for full, pause in zip(most, taken, strict=True)), taken
