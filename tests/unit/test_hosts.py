"""Hosts as launchers name them → workers; files that list them."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rshagent.call.hosts import (
    LOCAL,
    Entry,
    Resolver,
    UnknownHost,
    Worker,
    canonical_address,
    parse_hostfile,
    parse_hosts,
)

V6 = "fd00::7"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("w-0", Entry("w-0")),
        ("w-0 slots=4", Entry("w-0", 4)),
        ("w-0 slots = 4 max_slots=8", Entry("w-0", 4)),
        ("w-0\tslots=4\r", Entry("w-0", 4)),
        ("  w-0 max_slots=8", Entry("w-0")),
        ("w-0 max-slots=8 slots=2 # two", Entry("w-0", 2)),
        ("w-0 count=3", Entry("w-0", 3)),
        ("w-0 slots=many", Entry("w-0")),
        ("w-0 slots=99999999999999999999", Entry("w-0")),
        ("w-0:4", Entry("w-0", 4)),
        ("w-0:4 binding=user:0", Entry("w-0", 4)),
        ("w-0:", Entry("w-0")),
        ("me@w-0 slots=1", Entry("w-0", 1)),
        ("me@w-0:2", Entry("w-0", 2)),
        ("w-0.job.team-a.svc.cluster.local:2", Entry("w-0.job.team-a.svc.cluster.local", 2)),
        ("10.1.2.3 slots=2", Entry("10.1.2.3", 2)),
        ("10.1.2.3:2", Entry("10.1.2.3", 2)),
        ("fd00::7 slots=2", Entry("fd00::7", 2)),
        ("[fd00::7]:2", Entry("fd00::7", 2)),
        ("[fd00::7]", Entry("fd00::7")),
        ("team-a/w-0 slots=2", Entry("w-0", 2, "team-a")),
        ("team-a/w-0:2", Entry("w-0", 2, "team-a")),
    ],
)
def test_hostfile_line(line: str, entry: Entry) -> None:
    assert parse_hostfile(line) == [entry]
    assert parse_hostfile(f"# first\n\n{line}\n\t\n".encode()) == [entry]


@pytest.mark.parametrize(
    "line", ["", "# w-0", " // w-0", "slots=4", "+n0", "+e:2", "^w-0", "/w-0", "../w-0", "a/b/c", "w$0", "[", ":4", "@"]
)
def test_hostfile_line_that_names_no_host(line: str) -> None:
    assert parse_hostfile(line) == []


def test_hostfile_keeps_order_and_folds_duplicates() -> None:
    data = "\ufeffw-1 slots=2\r\nw-0\nw-1:3\nw-0\r\nw-2 slots=1\rw-2\nother/w-2\n".encode()
    assert parse_hostfile(data) == [Entry("w-1", 5), Entry("w-0"), Entry("w-2", 2), Entry("w-2", None, "other")]


@given(st.one_of(st.binary(), st.text(), st.text("w-0.:/@[]#= \n\rslots=1", max_size=60)))
def test_hostfile_is_total(data: bytes | str) -> None:
    for entry in parse_hostfile(data):
        assert parse_hostfile(entry.host if ":" not in entry.host else f"[{entry.host}]")[0].host == entry.host
        assert entry.pod


def test_hosts() -> None:
    data = b"# made\n10.0.0.9\tlauncher.job.ns.svc launcher\n10.0.0.1\tw-0\r\nFD00::7\tw-1\n"
    data += b"bad w-2\n10.0.0.3\n10.0.0.1 x\n"
    assert parse_hosts(data) == {"10.0.0.9": "launcher", "10.0.0.1": "w-0", V6: "w-1"}


@given(st.one_of(st.binary(), st.text()))
def test_hosts_is_total(data: bytes | str) -> None:
    parse_hosts(data)


@given(st.ip_addresses(v=4))
def test_canonical_ipv4(address: ipaddress.IPv4Address) -> None:
    assert canonical_address(str(address)) == str(address)


@given(st.ip_addresses(v=6))
def test_canonical_ipv6(address: ipaddress.IPv6Address) -> None:
    expected = socket.inet_ntop(socket.AF_INET6, address.packed)
    if address.ipv4_mapped is not None:
        expected = str(address.ipv4_mapped)
    for form in (str(address), address.exploded, str(address).upper(), f"[{address}]", f"{address}%eth0"):
        assert canonical_address(form) == expected


@given(st.text("0123456789abcdefg.:", max_size=45))
def test_canonical_address_agrees_with_ipaddress(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        assert canonical_address(text) is None
    else:
        assert canonical_address(text)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("launcher", True),
        ("launcher.job", True),
        ("launcher.job.team.svc.cluster.local", True),
        ("launcher.job.other.svc", False),
        ("other/launcher", False),
        ("team/launcher", True),
        ("10.0.0.9", True),
        ("10.0.0.8", True),
        ("10.0.0.1", False),
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("no host", False),
    ],
)
def test_this_pod(host: str, is_own: bool) -> None:
    addresses = {"10.0.0.1": "w-1", "10.0.0.9": "launcher"}
    assert Resolver([], addresses, "team", frozenset({"launcher", "10.0.0.8"})).is_own(host) == is_own


@pytest.mark.parametrize(
    "host", ["", "/", "a/", "/a", "a/b/c", "..", "../x", "a..b", ".a", "-a", "a b", "a\n", "ä", "a%", "a:b", "\udcff"]
)
def test_no_host_at_all(host: str) -> None:
    with pytest.raises(UnknownHost, match="neither a pod's name nor an address") as raised:
        Resolver([Entry("w-0")], {}, "team").resolve(host)
    assert str(raised.value).isascii()
    assert "\n" not in str(raised.value)


KNOWN = [
    Entry("w-0", 2),
    Entry("w-1.job.team.svc"),
    Entry("10.0.0.2"),
    Entry("w-3", None, "other"),
    Entry("w-4.job.far.svc.cluster.local"),
    Entry("a.b-0"),
    Entry("a"),
    Entry("fd00::5"),
    Entry("w-0", None, "other"),
]


@pytest.mark.parametrize(
    ("host", "worker"),
    [
        ("w-0", Worker("team", "w-0")),
        ("W-0", Worker("team", "w-0")),
        ("w-0.", Worker("team", "w-0")),
        ("w-0.job.team.svc.x", Worker("team", "w-0")),
        ("w-0.job", Worker("team", "w-0")),
        ("w-0.job.far.svc", Worker("far", "w-0")),
        ("w-0.job.far.svc.any.domain.", Worker("far", "w-0")),
        ("w-0.far.svc.cluster.local", Worker("far", "w-0")),
        ("other/w-0", Worker("other", "w-0")),
        ("w-1", Worker("team", "w-1")),
        ("w-1.job.team.svc", Worker("team", "w-1")),
        ("w-1.job.team.svc.cluster.local", Worker("team", "w-1")),
        ("10.0.0.2", Worker("team", "w-2")),
        ("w-2", Worker("team", "w-2")),
        ("w-3", Worker("other", "w-3")),
        ("other/w-3", Worker("other", "w-3")),
        ("w-4", Worker("far", "w-4")),
        ("a.b-0", Worker("team", "a.b-0")),
        ("a.b-0.job", Worker("team", "a.b-0")),
        ("a.c", Worker("team", "a")),
        ("10.0.0.10", Worker("team", "w-0")),
        ("::ffff:10.0.0.10", Worker("team", "w-0")),
        ("fd00:0::5", Worker("team", "fd00::5")),
        ("launcher", LOCAL),
        ("10.0.0.9", LOCAL),
    ],
)
def test_known_hosts(host: str, worker: Worker | str) -> None:
    addresses = {"10.0.0.2": "w-2", "10.0.0.3": "a.b-0", "10.0.0.10": "w-0", "10.0.0.11": "stranger"}
    resolver = Resolver(KNOWN, addresses, "team", frozenset({"launcher", "10.0.0.9"}))
    assert resolver.resolve(host) == worker


@pytest.mark.parametrize("host", ["w-9", "w", "w-00", "job", "10.0.0.7", "10.0.0.11", "svc", "fd00::6"])
def test_unknown_hosts(host: str) -> None:
    addresses = {"10.0.0.2": "w-2", "10.0.0.11": "stranger"}
    with pytest.raises(UnknownHost, match="not a worker of this job; its workers are w-0, w-1, w-2, w-3, w-4"):
        Resolver(KNOWN, addresses, "team").resolve(host)


def test_a_host_as_written_wins() -> None:
    resolver = Resolver([Entry("w-0.job.far.svc"), Entry("w-0")], {}, "team")
    assert resolver.resolve("w-0") == Worker("team", "w-0")
    assert resolver.resolve("w-0.job") == Worker("team", "w-0")
    assert resolver.resolve("w-0") == Worker("team", "w-0")
    assert resolver.resolve("w-0.job.far.svc") == Worker("far", "w-0")


def test_namespace_asked_for_wins() -> None:
    resolver = Resolver(KNOWN, {}, "team", frozenset({"w-0"}))
    for host in ("w-0", "w-0.job.team.svc", "other/w-0"):
        assert resolver.resolve(host, "asked") == Worker("asked", "w-0")


def test_an_error_names_a_few_workers() -> None:
    resolver = Resolver([Entry(f"w-{n}") for n in range(100)], {}, "team")
    with pytest.raises(UnknownHost) as raised:
        resolver.resolve("w-100")
    assert str(raised.value) == (
        "host 'w-100' is not a worker of this job; its workers are "
        "w-0, w-1, w-2, w-3, w-4, w-5, w-6, w-7, … and 92 more"
    )
    with pytest.raises(UnknownHost, match="its hostfile names none"):
        Resolver([], {}, "team").resolve("w-0")


@given(st.text(max_size=30))
def test_resolving_never_fails_otherwise(host: str) -> None:
    said = ""
    try:
        worker = Resolver(KNOWN, {"10.0.0.1": "w-0"}, "team").resolve(host)
    except UnknownHost as raised:
        said = str(raised)
        worker = ""
    assert "\n" not in said
    assert said or worker == LOCAL or isinstance(worker, Worker)
