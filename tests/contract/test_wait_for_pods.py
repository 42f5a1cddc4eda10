"""k8s-wait-for-pods.sh as its own process: CANOPIE's arguments, its Role, its two hostfiles."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from delivering import Delivery
from delivery_exec import cluster, shared
from running import USER

from delivery import exits
from delivery.canopie import rest_of
from delivery.wait import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from agents.playground.cluster import Cluster

__all__ = ["cluster", "shared"]

LABELS = {"hpcnode": "compute-node", "hpcjob": "test"}
SELECTOR = "hpcnode=compute-node,hpcjob=test"
ROLE = ("get pods", "list pods", "create pods/exec")  # no watch
# It has its own /etc/hosts, and so DNS that the test writes.
OWN_HOSTS = ["unshare", *USER, "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']


class Waiter(Delivery):
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.etc_hosts = folder / "etc-hosts"
        self.by_name, self.by_ip = folder / "etc" / "hostfile", folder / "etc" / "hostfile_ip"

    def pods(self, count: int, **fields: object) -> list[str]:
        return self.cluster.create_workers(count, "hpc-cn", labels=LABELS, **fields)

    def in_dns(self, *names: str) -> None:
        lines = "".join(f"{self.cluster.pod_address(name)} hpc-cluster\n" for name in names)
        self.etc_hosts.write_text(f"127.0.0.1 localhost\n{lines}")  # in its place: the file is what is mounted

    def start(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        words = [sys.executable, "-m", "delivery.canopie", *arguments]
        granted = self.cluster.environ(self.cluster.token(*ROLE))
        self.call([*OWN_HOSTS, str(self.etc_hosts), *words], {**granted, **(environ or {})})

    def wait_for(self, number: int, *extra: str, environ: Mapping[str, str] | None = None) -> None:
        files = (str(self.by_name), str(self.by_ip), *extra)
        self.start(str(number), "default", SELECTOR, "hpc-cluster", "hpc-cn", *files, environ=environ)


@pytest.fixture
def waiter(tmp_path: Path, cluster: Cluster) -> Iterator[Waiter]:
    (tmp_path / "login").mkdir()
    made = Waiter(tmp_path / "login", cluster)
    made.in_dns()
    yield made
    made.close()


def test_both_hostfiles_are_in_ordinal_order(waiter: Waiter) -> None:
    names = waiter.pods(12)
    waiter.in_dns(*names)
    waiter.wait_for(12)
    assert waiter.end() == exits.READY, waiter.told
    assert waiter.by_name.read_text().splitlines() == names
    assert waiter.by_ip.read_text().splitlines() == [waiter.cluster.pod_address(name) for name in names]
    assert "12/12 ready" in waiter.told
    assert sorted(path.name for path in waiter.by_ip.parent.iterdir()) == ["hostfile", "hostfile_ip"]


def test_the_last_argument_ends_each_line(waiter: Waiter) -> None:
    (name,) = waiter.pods(1)
    waiter.in_dns(name)
    waiter.wait_for(1, "slots=2")
    assert waiter.end() == exits.READY
    assert waiter.by_name.read_text() == f"{name} slots=2\n"
    assert waiter.by_ip.read_text() == f"{waiter.cluster.pod_address(name)} slots=2\n"


def test_without_files_it_only_waits(waiter: Waiter) -> None:
    waiter.in_dns(*waiter.pods(1))
    waiter.start("1", "default", SELECTOR, "hpc-cluster", "hpc-cn")
    assert waiter.end() == exits.READY
    assert not waiter.by_name.parent.exists()


def test_pods_of_other_labels_do_not_count(waiter: Waiter) -> None:
    waiter.cluster.create_pod("hpc-cn-0", labels={"hpcnode": "compute-node", "hpcjob": "other"})
    waiter.wait_for(1)
    waiter.until_told("0/1 ready · hpc-cn-0 not created yet")


def test_the_service_is_waited_for_until_it_has_all_addresses(waiter: Waiter) -> None:
    names = waiter.pods(2)
    waiter.wait_for(2)
    waiter.until_told("0/2 ready · hpc-cn-0, hpc-cn-1 not in DNS as hpc-cluster yet")
    waiter.in_dns(names[0])
    waiter.until_told("1/2 ready · hpc-cn-1 not in DNS as hpc-cluster yet")
    assert not waiter.by_name.exists()
    waiter.in_dns(*names)
    assert waiter.end() == exits.READY
    assert waiter.by_name.read_text().split() == names


def test_pods_that_will_never_be_ready_end_the_wait(waiter: Waiter) -> None:
    waiter.pods(1, state="invalid-image-name")
    waiter.wait_for(1)
    assert waiter.end() == exits.CANNOT_START
    assert waiter.last_line.startswith("k8s-wait-for-pods.sh: hpc-cn-0 ")
    assert waiter.last_line == f"k8s-wait-for-pods.sh: {waiter.log.read_text()}"


def test_timeout_says_what_was_waited_for(waiter: Waiter) -> None:
    """CANOPIE's YAML runs it by timeout(1), which ends it by TERM."""
    waiter.pods(1, state="pulling")
    waiter.wait_for(1)
    waiter.until_told("pulling image")
    waiter.process.terminate()
    assert waiter.end() == 143
    assert waiter.last_line.startswith(
        "k8s-wait-for-pods.sh: stopped by SIGTERM while waiting: 0/1 ready · hpc-cn-0 pulling"
    )


def test_a_limit_for_the_whole_wait_holds_for_dns_too(waiter: Waiter) -> None:
    waiter.pods(1)
    waiter.wait_for(1, environ={"MPI_AGENT_WAIT_TIMEOUT": "8s"})
    assert waiter.end() == exits.TIMED_OUT
    assert "hpc-cn-0 not in DNS as hpc-cluster yet" in waiter.last_line


def test_the_second_wait_has_what_the_first_one_left() -> None:
    limits = Limits(grace_s=5, timeout_s=60)
    assert rest_of(limits, 59) == Limits(grace_s=5, timeout_s=1)
    assert 0 < (rest_of(limits, 61).timeout_s or 0) < 0.01
    assert rest_of(Limits(), 1000) == Limits()


def test_an_address_that_never_comes_ends_the_wait(waiter: Waiter) -> None:
    """The Service selects no such pod, or the pod was replaced after it was Ready, and has another address."""
    waiter.pods(1)
    waiter.wait_for(1, environ={"MPI_AGENT_WAIT_GRACE": "1s"})
    assert waiter.end() == exits.GRACE_OVER
    assert "hpc-cn-0 not in DNS as hpc-cluster yet" in waiter.last_line
    assert "does the Service not select it?" in waiter.last_line


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ([], "NUM is missing"),
        (["5", "ns", "a=b", "svc"], "PREFIX is missing"),
        (["5", "", "a=b", "svc", "p"], "NAMESPACE is missing"),
        (["5", "ns", "", "svc", "p"], "SELECTOR is missing"),
        (["0", "ns", "a=b", "svc", "p"], "NUM is '0', and must be a number from 1 to 65536"),
        (["five", "ns", "a=b", "svc", "p"], "NUM is 'five', and must be a number from 1 to 65536"),
        (["5", "ns", "a=b", "svc", "P_"], "PREFIX is 'P_', and can't be one"),
        (["5", "ns", "a=b", "a b", "p"], "SERVICE is 'a b', and can't be one"),
        (["5", "ns", "a=b", "svc", "p", "f", "g", "slots=2\nevil"], "ARGS would not stay on its line of the hostfile"),
        (["5", "ns", "a=b", "svc", "p", "f", "g", "slots=2", "more"], "9 arguments"),
    ],
)
def test_wrong_usage_is_one_line_and_not_success(waiter: Waiter, arguments: list[str], wrong: str) -> None:
    usage = "NUM NAMESPACE SELECTOR SERVICE PREFIX [HOSTFILE [HOSTFILE_IP [ARGS]]]"
    waiter.start(*arguments)
    assert waiter.end() == exits.USAGE
    assert waiter.told == f"k8s-wait-for-pods.sh: {wrong} (usage: k8s-wait-for-pods.sh {usage})\n"
