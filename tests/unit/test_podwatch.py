"""The watch over pods, against an API server that says what the test tells it to, on a clock that the test moves."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from clocks import Clock
from hypothesis import given
from hypothesis import strategies as st
from scripted_api import Authority, Server, authority, read_head, read_to_end, settle, until_on
from splitting import PLACES, cut

from rshagent.cluster import Cluster
from rshagent.loop import Loop
from rshagent.podwatch import PodWatch, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["authority"]

Answer = bytes | tuple[bytes, str]


def pod(name: str, version: int = 1, phase: str = "Running") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "status": {"phase": phase}}


def plain(body: object, status: int = 200, fields: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{fields}\r\n".encode() + data


def page(*items: dict[str, Any], version: int = 10, token: str = "") -> bytes:
    return plain({"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)})


def line(kind: str, raw: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": raw}).encode() + b"\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


WATCHING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def watching(*lines: bytes) -> bytes:
    """Begin a watch that goes on."""
    return WATCHING + b"".join(chunk(each) for each in lines)


class Api:
    """Answers each request in its turn: bytes to send, and what to do then ("reset", "close"; else: hold the line)."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder, self.answers, self.targets, self.tokens = folder, list[Answer](), list[str](), list[str]()
        self.server = Server(self._serve, authority.issue("server", "127.0.0.1"))
        (folder / "token").write_text("first")
        (folder / "ca.crt").write_bytes(authority.pem)
        environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.server.port),
            "MPI_AGENT_SERVICE_ACCOUNT": str(folder),
        }
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.cluster = Cluster.load(environ, self.clock)
        self.changes: list[str | None] = []
        self.troubles: list[Trouble] = []
        self.watch: PodWatch | None = None

    def start(self, *answers: Answer, selector: str | None = None, wanted: frozenset[str] | None = None) -> PodWatch:
        self.answers += answers
        self.watch = PodWatch(
            self.loop,
            self.cluster,
            "training",
            selector=selector,
            wanted=wanted,
            on_change=self.changes.append,
            on_trouble=self.troubles.append,
        )
        self.watch.start()
        return self.watch

    def until(self, done: Callable[[], bool]) -> None:
        until_on(self.loop, done)

    def until_asked(self, count: int) -> None:
        self.until(lambda: len(self.targets) >= count)
        settle(self.loop)
        assert len(self.targets) == count, self.targets

    def query(self, index: int) -> dict[str, str]:
        parts = urlsplit(self.targets[index])
        assert parts.path == "/api/v1/namespaces/training/pods"
        return {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}

    def _serve(self, stream: socket.socket) -> None:
        head = read_head(stream)
        self.tokens.append(head.partition("Authorization: Bearer ")[2].partition("\r\n")[0])
        answer = self.answers.pop(0) if self.answers else b""
        data, then = answer if isinstance(answer, tuple) else (answer, "hold")
        self.targets.append(head.split(" ")[1])
        with contextlib.suppress(OSError):  # a watch that was closed meanwhile
            stream.sendall(data)
        if then == "reset":
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif then == "hold":
            read_to_end(stream)


@pytest.fixture
def api(tmp_path: Path, authority: Authority) -> Iterator[Api]:
    api = Api(tmp_path, authority)
    with api.server:
        yield api
        if api.watch is not None:
            api.watch.close()


def test_a_list_in_pages_then_a_watch(api: Api) -> None:
    watch = api.start(page(pod("a"), pod("b"), token="t/1="), page(pod("c"), version=12), watching())
    assert not watch.is_synced
    api.until_asked(3)
    assert watch.is_synced
    assert sorted(watch.pods) == ["a", "b", "c"]
    assert api.changes == [None]
    assert api.query(0) == {"limit": "100"}
    assert api.query(1) == {"limit": "100", "continue": "t/1="}
    asked = api.query(2)
    assert (asked["watch"], asked["resourceVersion"], asked["allowWatchBookmarks"]) == ("true", "12", "true")
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
    api.start(page(), (watching(line("ADDED", pod("a", 30))), "hold"))
    api.until(lambda: api.changes == [None, "a"])
    assert api.watch is not None
    api.clock.now += 240
    api.answers.append(watching())
    assert api.watch._request is not None
    api.watch._request.received(memoryview(END))
    api.until_asked(3)
    assert api.query(2)["resourceVersion"] == "30"
    assert api.troubles == []
    assert api.changes == [None, "a"]


def test_a_watch_that_ends_as_soon_as_it_begins_is_not_asked_for_at_once_again(api: Api) -> None:
    api.start(page(), watching() + END, watching() + END, watching())
    api.until(lambda: len(api.troubles) == 1)
    settle(api.loop)
    assert len(api.targets) == 2
    assert "as soon as it had begun" in api.troubles[0].message
    api.clock.now += 0.5
    api.until(lambda: len(api.troubles) == 2)
    assert len(api.targets) == 3
    api.clock.now += 0.5
    api.until_asked(4)
    assert api.changes == [None], "no list was needed"


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_watch_that_is_cut_goes_on_where_it_was(api: Api, how: str) -> None:
    api.start(page(version=40), (watching(), how), watching())
    api.until(lambda: len(api.troubles) == 1)
    assert 0 < api.troubles[0].retry_in_s < 0.2
    assert (api.troubles[0].status_code, api.troubles[0].is_final) == (0, False)
    api.clock.now += 1
    api.until_asked(3)
    assert api.query(2)["resourceVersion"] == "40"
    assert api.changes == [None]


GONE = {"kind": "Status", "code": 410, "message": "too old resource version: 10 (99)"}


@pytest.mark.parametrize(
    "answer",
    [
        watching(line("ERROR", GONE)) + END,  # in one piece, as the API server sends it
        watching(line("ERROR", GONE)),
        plain(GONE, 410),
        watching(b"no JSON\n"),
        watching(b'{"type": "ADDED"}\n'),
        watching(b'{"type": "ADDED", "object": {"metadata": []}}\n') + END,
        watching(b"[]\n", line("ADDED", pod("ghost", 50))),
        watching(b"[" * 100_000 + b"\n"),
    ],
)
def test_a_watch_that_is_too_old_or_makes_no_sense_begins_with_a_new_list(api: Api, answer: bytes) -> None:
    watch = api.start(page(pod("a")), answer, page(pod("b"), version=99), watching())
    api.until(lambda: len(api.troubles) == 1)
    settle(api.loop)
    assert len(api.targets) == 2, "before the wait"
    api.clock.now += 1
    api.until_asked(4)
    assert api.query(2) == {"limit": "100"}
    assert api.query(3)["resourceVersion"] == "99"
    assert sorted(watch.pods) == ["b"]
    assert api.changes == [None, None]
    assert len(api.troubles) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'{"items": []}', b'{"items": {}, "metadata": {}}', b'{"items": [5], "metadata": {}}', b"["],
)
def test_a_list_that_makes_no_sense_is_asked_for_again(api: Api, body: bytes) -> None:
    watch = api.start(plain(body), page(pod("a")), watching())
    api.until(lambda: len(api.troubles) == 1)
    assert api.troubles[0].message == "the list of pods can't be read"
    assert not watch.is_synced
    api.clock.now += 1
    api.until_asked(3)
    assert sorted(watch.pods) == ["a"]


def test_a_list_of_none_may_be_null(api: Api) -> None:
    watch = api.start(plain({"metadata": {"resourceVersion": "1"}, "items": None}), watching())
    api.until(lambda: watch.is_synced)
    assert watch.pods == {}


def test_a_403_is_final_and_names_the_rule(api: Api) -> None:
    said = 'pods is forbidden: User "x" cannot list resource "pods"'
    api.start(plain({"message": said}, 403))
    api.until(lambda: len(api.troubles) == 1)
    trouble = api.troubles[0]
    assert (trouble.status_code, trouble.is_final) == (403, True)
    assert said in trouble.message
    assert '{apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"]}' in trouble.message


def test_a_429_waits_as_long_as_the_server_wishes(api: Api) -> None:
    api.start(plain(b"", 429, "Retry-After: 7\r\n"), page(), watching())
    api.until(lambda: len(api.troubles) == 1)
    assert (api.troubles[0].status_code, api.troubles[0].retry_in_s) == (429, 7.0)
    api.clock.now += 6.9
    settle(api.loop)
    assert len(api.targets) == 1
    api.clock.now += 0.2
    api.until_asked(3)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_401_makes_the_token_be_read_again(api: Api, is_there: bool) -> None:
    api.start(plain(b"", 401), page(), watching())
    if is_there:
        (api.folder / "token").write_text("second")
    else:
        (api.folder / "ca.crt").unlink()  # while it is replaced
    api.until(lambda: len(api.troubles) == 1)
    api.clock.now += 1
    api.until_asked(3)
    assert api.tokens == ["first", *["second" if is_there else "first"] * 2]


def test_a_server_that_is_not_trusted_is_final_but_for_a_ca_that_is_renewed(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, authority: Authority
) -> None:
    api = Api(tmp_path, Authority(tmp_path_factory.mktemp("new"), "new-ca"))
    right = (tmp_path / "ca.crt").read_bytes()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    api.cluster.renew()
    with api.server:
        watch = api.start(page(pod("a")), watching())
        for count in (1, 2):
            api.until(lambda count=count: len(api.troubles) == count)  # type: ignore[misc]
            assert api.troubles[-1].is_final
            (tmp_path / "ca.crt").write_bytes(right)
            api.clock.now += 1
        api.until(lambda: watch.is_synced)
        watch.close()


def test_nobody_there_is_tried_again_with_growing_delays(tmp_path: Path, authority: Authority) -> None:
    api = Api(tmp_path, authority)
    with api.server:
        pass
    watch = api.start()
    for count in range(1, 7):
        api.until(lambda count=count: len(api.troubles) == count)  # type: ignore[misc]
        api.clock.now += 8
    assert api.troubles[5].retry_in_s > api.troubles[0].retry_in_s * 4
    assert api.troubles[0].message == "the API server can't be reached: Connection refused"
    watch.close()


def test_a_watch_that_fell_silent_is_not_believed_for_ever(api: Api) -> None:
    api.start(page(version=60), watching(), watching())
    api.until_asked(2)
    api.clock.now += 240
    settle(api.loop)
    assert api.troubles == []
    api.clock.now += 31
    api.until(lambda: len(api.troubles) == 1)
    assert api.troubles[0].message == "the watch fell silent"
    api.clock.now += 1
    api.until_asked(3)
    assert api.query(2)["resourceVersion"] == "60"


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

        watch._on_change = close
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


@pytest.fixture(scope="module")
def idle(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    folder = tmp_path_factory.mktemp("idle")
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_bytes(authority.pem)
    return Cluster.load({"KUBERNETES_SERVICE_HOST": "127.0.0.1", "MPI_AGENT_SERVICE_ACCOUNT": str(folder)})


@given(events=EVENTS, places=PLACES)
def test_events_in_any_pieces(idle: Cluster, events: list[tuple[str, str, str]], places: list[int]) -> None:
    changes: list[str | None] = []
    watch = PodWatch(Loop(), idle, "ns", on_change=changes.append, on_trouble=lambda _: pytest.fail("trouble"))
    data = b"".join(line(kind, pod(name, 1, phase)) for kind, name, phase in events)
    for piece in cut(data, places):
        watch._take_body(piece)
    expected: dict[str, str] = {}
    for kind, name, phase in events:
        if kind == "DELETED":
            expected.pop(name, None)
        else:
            expected[name] = phase
    assert {name: found.phase for name, found in watch.pods.items()} == expected
    assert changes == [name for _, name, _ in events]


@given(pieces=st.lists(st.binary(max_size=50) | st.sampled_from([b"\n", b'{"type":', b"{}", line("ADDED", pod("a"))])))
def test_any_bytes_are_events_or_trouble(idle: Cluster, pieces: list[bytes]) -> None:
    troubles: list[Trouble] = []
    watch = PodWatch(Loop(), idle, "ns", on_change=lambda _: None, on_trouble=troubles.append)
    for piece in pieces:
        watch._take_body(piece)
    assert all(name == "a" for name in watch.pods)
    assert all(trouble.message.isprintable() for trouble in troubles)
    watch.close()
