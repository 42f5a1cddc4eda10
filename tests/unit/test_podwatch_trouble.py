"""The watch over pods when it is cut, refused, too old or makes no sense: what it logs, and how it continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_api import END, Api, api, idle, line, page, plain, pod, watching
from scripted_api import Authority, authority, settle

from agents.common.loop import Loop
from rshagent.pods.podwatch import PodWatch, Trouble

if TYPE_CHECKING:
    from pathlib import Path

    from rshagent.net.cluster import Cluster

__all__ = ["api", "authority", "idle"]


def test_a_watch_that_ends_as_soon_as_it_begins_is_not_asked_for_at_once_again(api: Api) -> None:
    api.start(page(), watching() + END, watching() + END, watching())
    api.until(lambda: len(api.troubles) == 1)
    settle(api.loop)
    assert len(api.targets) == 2
    assert "immediately after its start" in api.troubles[0].message
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


@pytest.mark.parametrize("answer", [watching(line("ERROR", GONE)) + END, plain(GONE, 410)])
def test_lists_whose_watch_is_refused_each_time_come_later_each_time(api: Api, answer: bytes) -> None:
    api.start(*[page(), answer] * 8)
    waits: list[float] = []
    while len(waits) < 8:
        api.until(lambda: len(api.troubles) > len(waits))
        waits.append(api.troubles[-1].retry_in_s)
        api.clock.now += 60
    assert waits[-1] > 8 * waits[0]


def test_watches_that_never_begin_come_later_each_time_however_long_they_take_to_fail(api: Api) -> None:
    api.start(page(), *[(b"", "close later")] * 8)
    waits: list[float] = []
    while len(waits) < 8:
        api.until_asked(2 + len(waits))
        api.clock.now += 2
        api.later.set()
        api.until(lambda: len(api.troubles) > len(waits))
        waits.append(api.troubles[-1].retry_in_s)
        api.clock.now += 60
    assert waits[-1] > 8 * waits[0]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'{"items": []}', b'{"items": {}, "metadata": {}}', b'{"items": [5], "metadata": {}}', b"["],
)
def test_a_list_that_makes_no_sense_is_asked_for_again(api: Api, body: bytes) -> None:
    watch = api.start(plain(body), page(pod("a")), watching())
    api.until(lambda: len(api.troubles) == 1)
    assert api.troubles[0].message == "the list of pods can't be read"
    assert not api.changes
    api.clock.now += 1
    api.until_asked(3)
    assert sorted(watch.pods) == ["a"]


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
        api.until(lambda: api.changes == [None])
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


@given(pieces=st.lists(st.binary(max_size=50) | st.sampled_from([b"\n", b'{"type":', b"{}", line("ADDED", pod("a"))])))
def test_any_bytes_are_events_or_trouble(idle: Cluster, pieces: list[bytes]) -> None:
    troubles: list[Trouble] = []
    watch = PodWatch(Loop(), idle, "ns", on_change=lambda _: None, on_trouble=troubles.append)
    for piece in pieces:
        watch.take_body(piece)
    assert all(name == "a" for name in watch.pods)
    assert all(trouble.message.isprintable() for trouble in troubles)
    watch.close()


def test_a_watch_that_is_forbidden_after_it_was_allowed_is_trouble(api: Api) -> None:
    """An API server that has just started forbids for a moment: the list from before the watch may be hours old."""
    api.start(page(pod("a")), (watching(), "close"), plain(b"", 403), page(pod("b")), watching())
    api.until(lambda: len(api.troubles) == 1)
    api.clock.now += 0.5
    api.until(lambda: len(api.troubles) == 2)
    assert api.troubles[1].status_code == 403
    api.clock.now += api.troubles[1].retry_in_s + 0.1
    api.until_asked(5)
    assert "watch" not in api.query(3)


def test_lists_that_take_long_are_rarer(api: Api) -> None:
    api.start((page(pod("a")), "later"), plain(b"", 403), page(pod("b")), watching())
    api.until_asked(1)
    api.clock.now += 5.0
    api.later.set()
    api.until_asked(2)
    api.until(lambda: api.ended == 2)
    api.clock.now += 44.0
    settle(api.loop)
    assert len(api.targets) == 2, "before nine times as long"
    api.clock.now += 2.0
    api.until_asked(4)


def test_who_may_list_and_not_watch_gets_lists(api: Api) -> None:
    watch = api.start(page(pod("a")), plain(b"", 403), page(pod("b")), plain(b"", 403), page(pod("c")), watching())
    api.until_asked(2)
    api.until(lambda: api.ended == 2)
    api.clock.now += 9.9
    settle(api.loop)
    assert len(api.targets) == 2, "before the time"
    api.clock.now += 0.2
    api.until_asked(4)
    assert sorted(watch.pods) == ["b"]
    api.until(lambda: api.ended == 4)
    api.clock.now += 10.1
    api.until_asked(6)
    assert (sorted(watch.pods), api.changes, api.troubles) == (["c"], [None] * 3, [])
