"""The watch over pods: what is listed and watched, and what of it is known and told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_api import END, Api, api, idle, line, page, plain, pod, watching
from scripted_api import authority, settle
from splitting import PLACES, cut

from agents.common.loop import Loop
from rshagent.pods.podwatch import PodWatch

if TYPE_CHECKING:
    from rshagent.net.cluster import Cluster

__all__ = ["api", "authority", "idle"]


def test_a_list_in_pages_then_a_watch(api: Api) -> None:
    watch = api.start(page(pod("a"), pod("b"), token="t/1="), page(pod("c"), version=12), watching())
    assert not api.changes
    api.until_asked(3)
    assert sorted(watch.pods) == ["a", "b", "c"]
    assert api.changes == [None]
    assert api.query(0) == {"limit": "100"}
    assert api.query(1) == {"limit": "100", "continue": "t/1="}
    asked = api.query(2)
    assert (asked["watch"], asked["resourceVersion"], asked["allowWatchBookmarks"]) == ("true", "12", "true")
    assert api.troubles == []


def test_pods_of_many_bytes_are_listed_in_smaller_pages(api: Api) -> None:
    """Anybody who may make pods here can give them a MiB of annotations."""
    large = pod("a")
    large["metadata"] = {**large["metadata"], "annotations": {"notes": "x" * (5 << 20)}}
    watch = api.start(page(pod("first"), token="t1"), page(large), page(pod("a")), watching())
    api.until_asked(4)
    assert sorted(watch.pods) == ["a", "first"]
    asked = [api.query(number) for number in range(3)]
    assert asked == [{"limit": "100"}, {"limit": "100", "continue": "t1"}, {"limit": "25", "continue": "t1"}]
    assert api.troubles == []


def test_events_are_applied_and_told(api: Api) -> None:
    events = [
        line("ADDED", pod("b", 11, "Pending")),
        line("MODIFIED", pod("b", 12)),
        line("BOOKMARK", {"metadata": {"resourceVersion": "20"}}),
        line("DELETED", pod("a", 21)),
        b"\n",
    ]
    watch = api.start(page(pod("a")), watching(*events))
    api.until(lambda: len(api.changes) == 4)
    assert api.changes == [None, "b", "b", "a"]
    assert {name: found.phase for name, found in watch.pods.items()} == {"b": "Running"}


def test_a_label_selector_and_a_set_of_names(api: Api) -> None:
    watch = api.start(
        page(pod("a"), pod("x")),
        watching(line("ADDED", pod("y", 11)), line("ADDED", pod("b", 12))),
        selector="job=pi,role in (worker)",
        wanted=frozenset(("a", "b")),
    )
    api.until(lambda: len(api.changes) == 2)
    assert api.changes == [None, "b"]
    assert sorted(watch.pods) == ["a", "b"]
    assert [api.query(index)["labelSelector"] for index in (0, 1)] == ["job=pi,role in (worker)"] * 2


def test_a_watch_that_the_server_ends_in_time_goes_on_where_it_was(api: Api) -> None:
    api.start(page(), (watching(line("ADDED", pod("a", 30))) + END, "later"), watching())
    api.until_asked(2)
    api.clock.now += 240
    api.later.set()
    api.until_asked(3)
    assert api.query(2)["resourceVersion"] == "30"
    assert api.troubles == []
    assert api.changes == [None, "a"]


def test_a_list_of_none_may_be_null(api: Api) -> None:
    watch = api.start(plain({"metadata": {"resourceVersion": "1"}, "items": None}), watching())
    api.until(lambda: api.changes == [None])
    assert watch.pods == {}


def test_another_set_of_names_begins_anew(api: Api) -> None:
    watch = api.start(page(pod("a"), pod("b")), watching(), page(pod("a"), pod("b")), watching(), wanted=frozenset("a"))
    api.until_asked(2)
    assert sorted(watch.pods) == ["a"]
    watch.relist(frozenset("b"))
    assert sorted(watch.pods) == ["a"], "what is known counts until more is known"
    api.until_asked(4)
    assert sorted(watch.pods) == ["b"]
    assert api.changes == [None, None]


@pytest.mark.parametrize("when", ["at once", "in a list", "in a watch", "while it waits", "in its own call"])
def test_a_closed_watch_says_nothing_more(api: Api, when: str) -> None:
    if when == "at once":
        watch = api.start(page(pod("a")))
    elif when == "in a list":
        watch = api.start(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        api.until_asked(1)
    elif when == "in a watch":
        watch = api.start(page(), watching())
        api.until_asked(2)
    elif when == "while it waits":
        watch = api.start(plain(b"", 500))
        api.until(lambda: len(api.troubles) == 1)
    else:
        watch = api.start(page(), watching(line("ADDED", pod("a", 11)), line("ADDED", pod("b", 12))) + END)

        def close(name: str | None) -> None:
            api.changes.append(name)
            if name is not None:
                watch.close()

        api.on_change = close
        api.until(lambda: "a" in api.changes)
    seen = (list(api.changes), len(api.troubles))
    watch.close()
    watch.close()
    api.clock.now += 1000
    settle(api.loop)
    settle(api.loop)
    if when != "in its own call":
        assert (api.changes, len(api.troubles)) == seen
    else:
        assert api.changes == [None, "a"]
        assert api.troubles == []


EVENTS = st.lists(
    st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.sampled_from("abc"), st.text(max_size=5)),
    max_size=8,
)


@given(events=EVENTS, places=PLACES)
def test_events_in_any_pieces(idle: Cluster, events: list[tuple[str, str, str]], places: list[int]) -> None:
    changes: list[str | None] = []
    watch = PodWatch(Loop(), idle, "ns", on_change=changes.append, on_trouble=lambda _: pytest.fail("trouble"))
    data = b"".join(line(kind, pod(name, 1, phase)) for kind, name, phase in events)
    for piece in cut(data, places):
        watch.take_body(piece)
    expected: dict[str, str] = {}
    for kind, name, phase in events:
        if kind == "DELETED":
            expected.pop(name, None)
        else:
            expected[name] = phase
    assert {name: found.phase for name, found in watch.pods.items()} == expected
    assert changes == [name for _, name, _ in events]


def test_what_a_job_does_not_control_is_not_there_whatever_its_labels(api: Api) -> None:
    """A tenant's pod may take the name of a worker that is gone, and its labels."""

    def owned(name: str, version: int, *owners: tuple[str, bool]) -> dict[str, Any]:
        made = pod(name, version)
        made["metadata"]["ownerReferences"] = [{"uid": uid, "controller": is_its} for uid, is_its in owners]
        return made

    events = [
        line("ADDED", owned("d", 11, ("theirs", True), ("j-1", False))),
        line("ADDED", owned("e", 12, ("theirs", False), ("j-1", True))),
        line("MODIFIED", owned("a", 13, ("theirs", True))),
        line("ADDED", pod("f", 14)),
    ]
    watch = api.start(
        page(owned("a", 1, ("j-1", True)), owned("b", 2, ("theirs", True)), pod("c", 3)),
        watching(*events),
        selector="mpi-agents/job-uid=j-1,mpi-agents/role=worker",
    )
    api.until(lambda: len(api.changes) == 5)
    assert sorted(watch.pods) == ["e"]
