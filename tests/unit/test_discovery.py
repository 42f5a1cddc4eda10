"""Which hosts `--discover-hosts` tells, for a hostfile and the pods as they are."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from agents.common import pods
from rshagent.call import discovery
from rshagent.call.hosts import Resolver, parse_hostfile

if TYPE_CHECKING:
    from agents.common.pods import Pod

OWN = Resolver([], {}, "training", frozenset(("pi-launcher", "pi-launcher-x7k2p", "10.0.0.9")))


def pod(name: str, *, ready: bool = True, deleting: bool = False, ip: str = "", phase: str = "Running") -> Pod:
    metadata = {"name": name, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return pods.parse({"metadata": metadata, "status": {"phase": phase, "conditions": [condition], "podIP": ip}})


def found(hostfile: str, *job: Pod, slots: int | None = None) -> list[str]:
    return discovery.lines(parse_hostfile(hostfile), {one.name: one for one in job}, own=OWN, slots=slots)


def workers(*numbers: int) -> list[Pod]:
    return [pod(f"pi-worker-{number}") for number in numbers]


@pytest.mark.parametrize(
    ("hostfile", "expected"),
    [
        ("pi-worker-0 slots=2\npi-worker-1 slots=4\n", ["pi-worker-0:2", "pi-worker-1:4"]),
        ("pi-worker-0:2\npi-worker-1:4\n", ["pi-worker-0:2", "pi-worker-1:4"]),
        ("pi-worker-0\npi-worker-1\n", ["pi-worker-0:1", "pi-worker-1:1"]),
        ("", ["pi-worker-0:1", "pi-worker-1:1"]),
        (
            "pi-worker-0.pi.training.svc slots=2\npi-worker-1.pi.training.svc slots=2\n",
            ["pi-worker-0.pi.training.svc:2", "pi-worker-1.pi.training.svc:2"],
        ),
    ],
)
def test_hosts_as_the_hostfile_writes_them(hostfile: str, expected: list[str]) -> None:
    assert found(hostfile, *workers(0, 1)) == expected


@pytest.mark.parametrize(
    ("hostfile", "expected"),
    [
        ("pi-worker-0 slots=3\n", "pi-worker-2:3"),
        ("pi-worker-0.pi.training.svc.cluster.local slots=3\n", "pi-worker-2.pi.training.svc.cluster.local:3"),
        ("pi-worker-9.pi.training.svc:3\n", "pi-worker-2.pi.training.svc:3"),  # none of the file's is there
        ("10.0.0.1 slots=3\n", "pi-worker-2:3"),
        ("pi-launcher slots=1\n", "pi-worker-2:1"),
    ],
)
def test_a_worker_that_the_file_does_not_have_yet_is_written_as_its_peers_are(hostfile: str, expected: str) -> None:
    assert found(hostfile, *workers(0, 2))[-1] == expected


def test_numeric_order() -> None:
    assert found("", *workers(10, 2, 0, 1)) == [f"pi-worker-{number}:1" for number in (0, 1, 2, 10)]


@pytest.mark.parametrize(
    "gone",
    [
        pod("pi-worker-1", ready=False),
        pod("pi-worker-1", deleting=True),
        pod("pi-worker-1", phase="Failed"),
        pod("pi-worker-1", phase="Succeeded"),
    ],
)
def test_only_what_is_ready_and_stays(gone: Pod) -> None:
    assert found("pi-worker-0 slots=2\npi-worker-1 slots=2\n", *workers(0), gone) == ["pi-worker-0:2"]


def test_what_the_file_has_and_the_cluster_has_not() -> None:
    assert found("pi-worker-0\npi-worker-1\npi-worker-2\n", *workers(0)) == ["pi-worker-0:1"]
    assert found("pi-worker-0\n") == []


def test_slots_that_were_told_win() -> None:
    assert found("pi-worker-0 slots=2\n", *workers(0, 1), slots=8) == ["pi-worker-0:8", "pi-worker-1:8"]


@pytest.mark.parametrize("own", ["pi-launcher", "pi-launcher.pi.training.svc", "10.0.0.9"])
def test_a_launcher_that_is_a_worker_too_comes_first(own: str) -> None:
    launcher = pod("pi-launcher-x7k2p", ip="10.0.0.9")
    assert found(f"pi-worker-0 slots=2\n{own} slots=2\n", *workers(0), launcher) == [f"{own}:2", "pi-worker-0:2"]


def test_a_launcher_that_is_none_is_not_told_though_the_selector_finds_it() -> None:
    assert found("pi-worker-0\n", *workers(0), pod("pi-launcher-x7k2p")) == ["pi-worker-0:1"]


def test_pod_names_with_dots() -> None:
    job = [pod("a.b-worker-0"), pod("a.b-worker-1")]
    assert found("a.b-worker-0 slots=2\n", *job) == ["a.b-worker-0:2", "a.b-worker-1:2"]
    fully = "a.b-worker-0.mpi-a.training.svc slots=2\n"
    assert found(fully, *job) == ["a.b-worker-0.mpi-a.training.svc:2", "a.b-worker-1.mpi-a.training.svc:2"]


def test_a_host_by_its_address() -> None:
    assert found("10.0.0.1 slots=2\n", pod("pi-worker-0", ip="10.0.0.1")) == ["10.0.0.1:2"]


@pytest.mark.parametrize(("hosts", "printed"), [([], b""), (["a:1"], b"a:1\n"), (["a:1", "b.c:2"], b"a:1\nb.c:2\n")])
def test_what_the_client_prints(hosts: list[str], printed: bytes) -> None:
    assert subprocess.run(["/bin/sh", "-c", discovery.answer(hosts)], capture_output=True, check=True).stdout == printed
