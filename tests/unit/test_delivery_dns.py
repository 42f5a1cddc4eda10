"""Queries that leave nothing in a cache that would harm: names, bytes, answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.sshd import dns
from delivery.sshd.dns import ResolvConf

SEARCH = ("science.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org")
POD = ResolvConf("10.96.0.10", SEARCH)
OWN_SERVICE = ResolvConf("10.96.0.10", ("pi.science.svc.cluster.local", *SEARCH))
FULL = "pi-worker-0.pi.science.svc.cluster.local"


@pytest.mark.parametrize(
    ("text", "resolver"),
    [
        (
            "search science.svc.cluster.local svc.cluster.local cluster.local example.org\n"
            "nameserver 10.96.0.10\nnameserver 10.96.0.11\noptions ndots:5\n",
            POD,
        ),
        ("# by hand\nnameserver fd00::10\ndomain Example.ORG.\n", ResolvConf("fd00::10", ("example.org",))),
        ("nameserver\nsearch\n\n", ResolvConf()),
        ("", ResolvConf()),
    ],
)
def test_resolv_conf(text: str, resolver: ResolvConf) -> None:
    assert dns.read_resolv_conf(text) == resolver


NAMES: dict[str, tuple[str, ResolvConf, str]] = {
    "as kubeflow's hostfile has it": ("pi-worker-0.pi.science.svc", POD, FULL),
    "in this namespace": ("pi-worker-0.pi", POD, FULL),
    "in the job's own search domain": ("pi-worker-0", OWN_SERVICE, FULL),
    "with the cluster's domain": (FULL, POD, FULL),
    "in another namespace": ("pi-worker-0.pi.art.svc", POD, "pi-worker-0.pi.art.svc.cluster.local"),
    "another domain": ("w.pi.a.svc", ResolvConf("::1", ("a.svc.my.org", "svc.my.org", "my.org")), "w.pi.a.svc.my.org"),
    "a Service": ("pi", POD, ""),
    "a pod's name alone": ("pi-worker-0", POD, ""),
    "an address": ("10.0.0.7", POD, ""),
    "no cluster's resolv.conf": ("pi-worker-0.pi", ResolvConf("10.0.0.1", ("example.org",)), ""),
}


@pytest.mark.parametrize(("host", "resolver", "name"), NAMES.values(), ids=NAMES)
def test_full_name_of_a_pod(host: str, resolver: ResolvConf, name: str) -> None:
    assert dns.full_name(host, resolver) == name


def test_query_by_hand() -> None:
    """RFC 1035, 4.1: number, flags (recursion desired), one question; labels; type, class IN."""
    head = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    name = b"\x01w\x02pi\x07science\x03svc\x05local\x00"
    assert dns.query(0x1234, "w.pi.science.svc.local", 0.0) == head + name + b"\xff\x00\x00\x01"
    assert dns.query(0x1234, "w.pi.science.svc.local", 0.2) == head + name + b"\xff\x01\x00\x01"


def test_types_are_nobodys_and_last_longer_than_what_is_kept() -> None:
    kinds = [dns.query(1, "w", at / 10)[-4:-2] for at in range(600)]
    assert all(65280 <= int.from_bytes(kind, "big") <= 65534 for kind in kinds)
    first = kinds[0]
    assert first not in kinds[2:500]  # for 50 s, where 30 are kept


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64, "ä"])
def test_what_is_no_name_is_not_asked_for(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (UnicodeEncodeError is one)
        dns.query(1, name, 0.0)


REST = b"\0\1" + b"\0" * 6


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x12\x34\x81\x83" + REST, (0x1234, True)),  # NXDOMAIN
        (b"\x12\x34\x81\x80" + REST, (0x1234, False)),  # NOERROR
        (b"\x12\x34\x81\x84" + REST, (0x1234, False)),  # NOTIMP
        (b"\x12\x34\x81\x85" + REST, (0x1234, False)),  # REFUSED
        (b"\x12\x34\x81\x82" + REST, (0x1234, False)),  # SERVFAIL
        (b"\x12\x34\x01\x00" + REST, None),  # a query
        (b"\x12\x34\x81", None),
        (b"", None),
    ],
)
def test_answers(data: bytes, found: tuple[int, bool] | None) -> None:
    assert dns.read_answer(data) == found


@given(st.binary(max_size=40))
def test_no_answer_crashes(data: bytes) -> None:
    dns.read_answer(data)


@given(st.text())
def test_no_resolv_conf_crashes(text: str) -> None:
    dns.full_name("pi-worker-0", dns.read_resolv_conf(text))
