"""Which workers a hostfile means, which pods they are, and the hosts file that tells their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delivery_pods import failed, pod, ready
from hypothesis import given
from hypothesis import strategies as st

from delivery.exits import HOSTFILE, DeliveryError
from delivery.hostfile import Changes, Roster, hosts_content, hosts_in, own_line, own_names, read, workers
from rshagent.call.hosts import parse_hosts

if TYPE_CHECKING:
    from pathlib import Path

OWN = frozenset({"pi-launcher", "10.0.0.1"})
PAIR = ["pi-worker-0", "pi-worker-1"]

FORMS: dict[str, tuple[bytes, list[str]]] = {
    "named twice": (b"pi-worker-0\npi-worker-1\npi-worker-0\n", PAIR),
    "capitals": (b"PI-worker-0\npi-worker-1\n", PAIR),
    "launcher": (b"pi-launcher slots=1\npi-worker-0\npi-worker-1\n", PAIR),
    "launcher by address": (b"10.0.0.1\npi-worker-0\npi-worker-1\n", PAIR),
    "launcher by DNS name": (b"pi-launcher.pi.ns.svc\npi-worker-0\npi-worker-1\n", PAIR),
    "localhost": (b"localhost slots=2\n127.0.0.1\n::1\npi-worker-0\npi-worker-1\n", PAIR),
    "a job that ends in launcher": (
        b"my-launcher-worker-0\nmy-launcher-worker-1\n", ["my-launcher-worker-0", "my-launcher-worker-1"],
    ),
    "a pod called launcher": (b"launcher\nlauncher-worker-0\n", ["launcher", "launcher-worker-0"]),
    "a pod that ends in launcher": (b"other-launcher\n", ["other-launcher"]),
    "a Service that ends in launcher": (b"worker-0.my-launcher\n", ["worker-0.my-launcher"]),
    "nothing": (b"", []),
    "only comments": (b"# nobody\n\n", []),
    "only the launcher": (b"pi-launcher slots=1\n", []),
}  # fmt: skip


@pytest.mark.parametrize(("data", "hosts"), FORMS.values(), ids=FORMS)
def test_which_hosts_are_workers(data: bytes, hosts: list[str]) -> None:
    assert hosts_in("ns", workers(data, OWN)) == hosts


@pytest.mark.parametrize(
    "own",
    ["pi-launcher", "pi-launcher-x7k2p", "node-17"],
    ids=["its own pod", "a pod of its Job", "on the host's network"],
)
def test_launcher_entry_is_skipped_by_whatever_name_the_pod_has(own: str) -> None:
    found = workers(b"pi-launcher\npi-worker-0\n", frozenset({own}))
    assert hosts_in("ns", found) == ["pi-worker-0"]


@pytest.mark.parametrize("own", ["a.b-launcher", "a.b-launcher-x7k2p"], ids=["its own pod", "a pod of its Job"])
@pytest.mark.parametrize("domain", ["", ".mpi-a-b.ns.svc"])
def test_launcher_entry_of_a_job_whose_name_has_dots(own: str, domain: str) -> None:
    found = workers(f"a.b-launcher{domain}\na.b-worker-0{domain}\n".encode(), frozenset({own}))
    assert hosts_in("ns", found) == [f"a.b-worker-0{domain}"]


def test_namespace_of_a_host_must_be_the_one_that_is_watched() -> None:
    found = workers(b"ns/pi-worker-0\n", OWN)
    assert hosts_in("ns", found) == ["pi-worker-0"]
    with pytest.raises(DeliveryError, match="ns/pi-worker-0, but delivery waits in namespace other only") as error:
        hosts_in("other", found)
    assert error.value.exit_code == HOSTFILE


@pytest.mark.parametrize("data", [b"\x00\xff\xfe\n", b"^^^ ???\n", b"<html>\n"])
def test_file_that_is_no_hostfile_is_refused(data: bytes) -> None:
    with pytest.raises(DeliveryError, match="no line that begins with a host"):
        workers(data, OWN)


def test_missing_hostfile_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match=r"hostfile .*/nope can't be read: No such file") as error:
        read(str(tmp_path / "nope"))
    assert error.value.exit_code == HOSTFILE
    assert "\n" not in str(error.value)


@given(st.binary(max_size=200))
def test_no_bytes_crash(data: bytes) -> None:
    try:
        found = workers(data, OWN)
    except DeliveryError:
        return
    Roster(entry.host for entry in found).display_names()


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,6}-worker-[0-9]{1,3}", fullmatch=True)
LINES = st.sampled_from(["{} slots=2", "{}:2", "{}", "  {}\t", "user@{} # x", "{}\r", "\n{}"])


@given(st.lists(st.tuples(NAMES, LINES), unique_by=lambda pair: pair[0], max_size=8))
def test_each_form_keeps_each_worker(pairs: list[tuple[str, str]]) -> None:
    data = "\n".join(form.format(name) for name, form in pairs).encode()
    assert [entry.host for entry in workers(data, OWN)] == [name for name, _ in pairs]


HOST_OF_POD = {
    "name": ("pi-worker-0", "pi-worker-0"),
    "pod.job": ("pi-worker-0.pi", "pi-worker-0"),
    "FQDN": ("pi-worker-0.pi.ns.svc.cluster.local", "pi-worker-0"),
    "root's dot": ("pi-worker-0.pi.ns.svc.", "pi-worker-0"),
    "dots in the name": ("my.pi-worker-0", "my.pi-worker-0"),
    "dots in the name of an FQDN": ("my.pi-worker-0.pi.ns.svc", "my.pi-worker-0"),
}


@pytest.mark.parametrize(("host", "name"), HOST_OF_POD.values(), ids=HOST_OF_POD)
def test_host_finds_its_pod(host: str, name: str) -> None:
    roster, pods = Roster([host]), {name: pod(name), "other": pod("other")}
    assert roster.touched(name, pods[name]) == [host]
    assert roster.touched("other", pods["other"]) == []
    assert roster.pod_of(host, pods) is pods[name]
    assert roster.pod_of(host, {}) is None
    assert roster.pod_names is not None
    assert name in roster.pod_names


@pytest.mark.parametrize(("host", "ip"), [("10.0.0.7", "10.0.0.7"), ("fd00::7", "fd00:0:0::7")])
def test_address_finds_its_pod_and_the_one_that_gets_it_next(host: str, ip: str) -> None:
    roster = Roster([host])
    assert roster.pod_names is None
    first, second = pod("a", ips=(ip,)), pod("b", ips=(ip,))
    assert roster.touched("a", first) == [host]
    assert roster.pod_of(host, {"a": first}) is first
    assert roster.touched("a", None) == [host]
    assert roster.pod_of(host, {}) is None
    roster.touched("b", second)
    assert roster.pod_of(host, {"b": second}) is second


def test_address_of_an_ended_pod_is_free_again() -> None:
    roster, live, ended = Roster(["10.0.0.7"]), ready("live"), failed("ended", ips=("10.0.0.7",))
    pods = {"live": live, "ended": ended}
    roster.touched("live", live)
    roster.touched("ended", ended)
    assert roster.pod_of("10.0.0.7", pods) is live


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        (["w-0.pi.ns.svc", "w-1.pi.ns.svc"], ["w-0", "w-1"]),
        (["my.w-0", "my.w-1"], ["my.w-0", "my.w-1"]),
        (["10.0.0.7", "10.0.0.8"], ["10.0.0.7", "10.0.0.8"]),
    ],
)
def test_workers_are_called_by_the_shortest_name_that_tells_them_apart(hosts: list[str], shown: list[str]) -> None:
    assert list(Roster(hosts).display_names().values()) == shown


# A hostfile that changes -------------------------------------------------------------------------------------------


def look_after(folder: Path, *texts: str | None) -> list[list[str] | None]:
    """What is reported of a hostfile that names PAIR, after each of these contents (None: there is no file)."""
    path = folder / "hostfile"
    path.write_text("pi-worker-0\npi-worker-1\n")
    changes = Changes(str(path), "default", OWN, PAIR)
    told = [changes.look()]
    for text in texts:
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        told.append(changes.look())
    return told


@pytest.mark.parametrize(
    "text",
    [
        "pi-worker-0 slots=9\npi-worker-1\n# more\n",
        "pi-launcher\npi-worker-0\npi-worker-1\n",
        "!!\n",
        "elsewhere/pi-worker-0\n",
        None,
    ],
)
def test_a_hostfile_that_names_no_others_has_not_changed(tmp_path: Path, text: str | None) -> None:
    assert look_after(tmp_path, text) == [None, None]


def test_a_hostfile_that_names_others_is_told_once(tmp_path: Path) -> None:
    assert look_after(tmp_path, "pi-worker-0\n", "pi-worker-0 # again\n", None, "pi-worker-0\npi-worker-1\n", "") == [
        None, ["pi-worker-0"], None, None, PAIR, [],
    ]  # fmt: skip


# The hosts file ----------------------------------------------------------------------------------------------------


UPSTREAM_HOSTS = """# this line is a comment
127.0.0.1       localhost
::1             localhost
234.98.76.54    uselesshost
10.234.56.78    launcher.fullname.test  launcher"""


def test_hosts_file_is_in_ordinal_order_and_ends_its_last_line() -> None:
    workers = [(f"pi-worker-{number}", (f"10.0.0.{number}",)) for number in (10, 9, 1, 0)]
    assert hosts_content("10.0.1.1\tpi-launcher", workers).decode().splitlines() == [
        "10.0.1.1\tpi-launcher",
        "10.0.0.0\tpi-worker-0",
        "10.0.0.1\tpi-worker-1",
        "10.0.0.9\tpi-worker-9",
        "10.0.0.10\tpi-worker-10",
    ]
    assert hosts_content("", workers).endswith(b"\tpi-worker-10\n")


def test_dual_stack_worker_has_both_addresses() -> None:
    content = hosts_content("", [("w-0", ("10.0.0.7", "fd00::7"))])
    assert content == b"10.0.0.7\tw-0\nfd00::7\tw-0\n"


OWN_LINES = {
    "last": (UPSTREAM_HOSTS, "launcher", "10.234.56.78\tlauncher.fullname.test launcher"),
    "hostAliases follow it": (f"{UPSTREAM_HOSTS}\n\n# hostAliases\n1.2.3.4\tfoo", "launcher",
                              "10.234.56.78\tlauncher.fullname.test launcher"),
    "unknown hostname: the last, as upstream": ("127.0.0.1 localhost\n10.0.0.1 a\n\n# end\n", "b", "10.0.0.1\ta"),
    "comment behind it": ("10.0.0.1 a # me\n", "a", "10.0.0.1\ta"),
    "nothing": ("\n# nothing\n", "a", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "hostname", "line"), OWN_LINES.values(), ids=OWN_LINES)
def test_own_line(text: str, hostname: str, line: str) -> None:
    assert own_line(text, hostname) == line


def test_own_names_are_those_of_the_own_line_only() -> None:
    names = own_names(UPSTREAM_HOSTS, "launcher")
    assert names == {"launcher", "launcher.fullname.test", "10.234.56.78"}
    assert own_names("10.0.0.1 someone\n", "launcher.ns") == {"launcher", "launcher.ns"}


HOST_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}[0-9]{0,3}", fullmatch=True)


@given(st.dictionaries(HOST_NAMES, st.ip_addresses(v=4).map(str), max_size=8))
def test_agent_reads_back_what_delivery_wrote(workers: dict[str, str]) -> None:
    content = hosts_content("", [(name, (at,)) for name, at in workers.items()])
    read = parse_hosts(content)
    assert set(read) == set(workers.values())
    assert all(workers[name] == at for at, name in read.items())
