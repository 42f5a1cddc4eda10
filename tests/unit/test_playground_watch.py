"""Lists and watches of the stand-in, as a client-go reflector and delivery use them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from raw_api import Answer, connect, receive, request

from agents.playground import Cluster
from agents.playground.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster(tmp_path: Any) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


class RawWatch:
    def __init__(self, cluster: Cluster, token: str, query: str) -> None:
        self.stream = connect(cluster)
        head = f"GET {PODS}?watch=1&{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        self.stream.sendall(head.encode())
        self.answer = Answer(self.stream)
        self.data = self.answer.rest

    def __enter__(self) -> RawWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def event(self) -> dict[str, Any]:
        """The next event; {} at the end of the watch."""
        while True:
            size, newline, rest = self.data.partition(b"\r\n")
            if newline and len(rest) >= int(size, 16) + 2:
                chunk, self.data = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
                return dict(json.loads(chunk)) if chunk else {}
            more = receive(self.stream)
            if not more:
                raise ConnectionResetError("closed within a chunk")
            self.data += more

    def short(self) -> tuple[str, str]:
        """Type and name of the next event."""
        event = self.event()
        return event["type"], event["object"]["metadata"].get("name", "")


def listed(cluster: Cluster, token: str, query: str = "") -> dict[str, Any]:
    answer, body = request(cluster, f"{PODS}?{query}", token)
    assert answer.status == 200, body
    return dict(json.loads(body))


def names(page: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


def test_lists_in_pages_of_one_version(cluster: Cluster) -> None:
    token = cluster.token()
    cluster.create_workers(5, "w", labels={"job": "pi"})
    cluster.create_pod("other")
    assert names(listed(cluster, token, "labelSelector=job%3Dpi")) == [f"w-{n}" for n in range(5)]
    assert names(listed(cluster, token, "fieldSelector=metadata.name%3Dw-3")) == ["w-3"]
    first = listed(cluster, token, "limit=2&labelSelector=job%3Dpi")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["w-0", "w-1"], 3)
    cluster.delete_pod("w-4")
    second = listed(cluster, token, f"limit=2&continue={first['metadata']['continue']}")
    third = listed(cluster, token, f"limit=2&continue={second['metadata']['continue']}")
    assert (names(second), names(third)) == (["w-2", "w-3"], ["w-4"])
    assert first["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]
    answer, body = request(cluster, f"{PODS}?continue={first['metadata']['continue']}", token)
    assert (answer.status, json.loads(body)["reason"]) == (410, "Expired")


def test_a_watch_goes_on_from_a_version(cluster: Cluster) -> None:
    token = cluster.token()
    cluster.create_pod("w-0", state="pulling")
    version = listed(cluster, token)["metadata"]["resourceVersion"]
    cluster.set_state("w-0", "ready")
    with RawWatch(cluster, token, f"resourceVersion={version}") as watch:
        event = watch.event()
        assert (event["type"], event["object"]["status"]["phase"]) == ("MODIFIED", "Running")
        cluster.create_pod("w-1", state="pending")
        assert watch.short() == ("ADDED", "w-1")
        cluster.delete_pod("w-0")
        event = watch.event()
        assert event["object"]["metadata"]["deletionTimestamp"]
        assert watch.short() == ("DELETED", "w-0")


def test_a_watch_without_a_version_begins_with_what_is_there(cluster: Cluster) -> None:
    token = cluster.token()
    cluster.create_workers(2, "w", state="pending")
    with RawWatch(cluster, token, "") as watch:
        assert [watch.short(), watch.short()] == [("ADDED", "w-0"), ("ADDED", "w-1")]
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with RawWatch(cluster, token, query) as watch:
        assert [watch.short(), watch.short()] == [("ADDED", "w-0"), ("ADDED", "w-1")]
        event = watch.event()
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_selected_watch_sees_a_pod_come_and_go(cluster: Cluster) -> None:
    token = cluster.token()
    version = listed(cluster, token)["metadata"]["resourceVersion"]
    with RawWatch(cluster, token, f"resourceVersion={version}&fieldSelector=status.phase%3DRunning") as watch:
        cluster.create_pod("w-0", state="pending")
        cluster.set_state("w-0", "running")
        assert watch.short() == ("ADDED", "w-0")
        cluster.set_state("w-0", "ready")
        assert watch.short() == ("MODIFIED", "w-0")
        cluster.set_state("w-0", "failed")
        assert watch.short() == ("DELETED", "w-0")


def test_too_old_versions_are_gone(cluster: Cluster) -> None:
    token = cluster.token()
    version = listed(cluster, token)["metadata"]["resourceVersion"]
    with RawWatch(cluster, token, f"resourceVersion={version}") as watch:
        assert cluster.watches("expire") == 1
        event = watch.event()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert watch.event() == {}
    with RawWatch(cluster, token, f"resourceVersion={version}") as watch:
        event = watch.event()
        assert event["object"]["message"].startswith(f"too old resource version: {version} (")
    cluster.fault("gone", on="watch")
    now = listed(cluster, token)["metadata"]["resourceVersion"]
    with RawWatch(cluster, token, f"resourceVersion={now}") as watch:
        event = watch.event()
        assert event["object"]["code"] == 410


def test_the_log_reaches_back_to_the_version_that_it_says() -> None:
    store = Store()
    for number in range(10_000):
        store.create("pods", {"metadata": {"name": str(number)}})
    assert 1000 < store.oldest < store.version
    assert len(store.since("pods", store.oldest)) == store.version - store.oldest


def test_watches_end_are_cut_and_bring_garbage(cluster: Cluster) -> None:
    token = cluster.token()
    with RawWatch(cluster, token, "timeoutSeconds=1") as watch:
        assert watch.event() == {}
    with RawWatch(cluster, token, "") as watch:
        cluster.watches("end")
        assert watch.event() == {}
    with RawWatch(cluster, token, "") as watch:
        cluster.watches("cut")
        with pytest.raises(ConnectionResetError):
            watch.event()
    with RawWatch(cluster, token, "") as watch:
        cluster.watches("raw", b'{"type":"HELLO"}\n')
        assert watch.event() == {"type": "HELLO"}
    cluster.until(lambda stats: stats["watches"] == 0)
