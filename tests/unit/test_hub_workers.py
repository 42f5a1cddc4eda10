"""Which workers the hub execs into, while the files that say so change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from agents.common import pods
from rshagent.call.hosts import UnknownHost, Worker
from rshagent.hub.workers import Workers

if TYPE_CHECKING:
    from pathlib import Path

    from agents.common.pods import Pod


class Job:
    """The files of a job, and the workers that the hub makes of them."""

    def __init__(self, folder: Path, hostfile: str | None, hosts: str | None = None) -> None:
        self.hostfile, self.hosts = folder / "hostfile", folder / "hosts"
        self.changes = 0
        for path, text in ((self.hostfile, hostfile), (self.hosts, hosts)):
            if text is not None:
                path.write_text(text)
        own = frozenset(("launcher", "10.0.0.9"))
        self.workers = Workers(str(self.hostfile), str(self.hosts), "training", own, self._changed)

    def resolve(self, host: str, namespace: str | None = None, watched: dict[str, Pod] | None = None) -> Worker | str:
        return self.workers.resolve(host, namespace, watched)

    def replace(self, path: Path, text: str) -> None:
        """Write as a ConfigMap's volume does: another file in its place."""
        new = path.with_suffix(".new")
        new.write_text(text)
        os.replace(new, path)

    def _changed(self) -> None:
        self.changes += 1


def pod(name: str, *ips: str) -> Pod:
    return pods.parse({"metadata": {"name": name}, "status": {"podIPs": [{"ip": ip} for ip in ips]}})


@pytest.mark.parametrize(
    ("host", "namespace"),
    [
        ("other", None),
        ("worker-00", None),
        ("10.0.0.3", None),
        ("worker-0", "elsewhere"),
        ("elsewhere/worker-0", None),
        ("worker-0.job.elsewhere.svc.cluster.local", None),
        ("worker-0", "../../nodes"),
        ("worker-0", "training/pods/other/exec?command=id&"),
        ("../worker-0", None),
        ("worker-0/../other", None),
        ("worker-0?x=", None),
        ("", None),
    ],
)
def test_nobody_else(tmp_path: Path, host: str, namespace: str | None) -> None:
    job = Job(tmp_path, "worker-0\n", "10.0.0.3\tother\n")
    with pytest.raises(UnknownHost) as error:
        job.resolve(host, namespace)
    assert str(error.value).isprintable()


def test_without_a_hostfile_nobody_at_all(tmp_path: Path) -> None:
    job = Job(tmp_path, None)
    assert job.workers.is_missing
    with pytest.raises(UnknownHost):
        job.resolve("worker-0")


def test_a_hostfile_that_names_another_namespace_allows_it(tmp_path: Path) -> None:
    job = Job(tmp_path, "worker-0\nelsewhere/guest-0\n")
    assert job.resolve("elsewhere/guest-0") == Worker("elsewhere", "guest-0")
    assert job.resolve("guest-0") == Worker("elsewhere", "guest-0")


def test_a_file_that_comes_changes_and_goes(tmp_path: Path) -> None:
    job = Job(tmp_path, None)
    changes = job.changes
    job.replace(job.hostfile, "worker-0\n")
    assert job.resolve("worker-0") == Worker("training", "worker-0")
    assert not job.workers.is_missing
    assert job.changes == changes + 1
    job.replace(job.hostfile, "worker-1\n")
    with pytest.raises(UnknownHost, match="worker-1"):
        job.resolve("worker-0")
    assert job.resolve("worker-1") == Worker("training", "worker-1")
    assert job.changes == changes + 2
    job.hostfile.unlink()
    with pytest.raises(UnknownHost):
        job.resolve("worker-1")
    assert job.workers.is_missing


def test_a_configmap_that_swaps_its_link(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "hostfile").write_text(f"worker-{version}\n")
    (tmp_path / "data").symlink_to("one")
    (tmp_path / "hostfile").symlink_to("data/hostfile")
    job = Job(tmp_path, None)
    assert job.resolve("worker-one") == Worker("training", "worker-one")
    (tmp_path / "data.new").symlink_to("two")
    os.replace(tmp_path / "data.new", tmp_path / "data")
    assert job.resolve("worker-two") == Worker("training", "worker-two")


def test_only_a_change_of_workers_is_told(tmp_path: Path) -> None:
    job = Job(tmp_path, "worker-0\n")
    changes = job.changes
    for _ in range(3):
        job.resolve("worker-0")
    job.replace(job.hostfile, "worker-0  # a comment\n")
    job.resolve("worker-0")
    job.replace(job.hosts, "10.0.0.1\tworker-0\n")
    assert job.resolve("10.0.0.1") == Worker("training", "worker-0")
    assert job.changes == changes


def test_names_to_watch(tmp_path: Path) -> None:
    job = Job(tmp_path, "worker-0\nworker-1.job\n")
    assert job.workers.names is not None
    assert {"worker-0", "worker-1"} <= job.workers.names
    job.replace(job.hostfile, "worker-0\n10.0.0.2\n")
    job.workers.refresh()
    assert job.workers.names is None, "of an address, only the watch can tell whose it is"


def test_an_address_of_the_hostfile_is_the_pod_that_has_it_now(tmp_path: Path) -> None:
    job = Job(tmp_path, "10.0.0.2\n")
    assert job.resolve("10.0.0.2", watched={"worker-1": pod("worker-1", "10.0.0.2")}) == Worker("training", "worker-1")
    replaced = {"worker-2": pod("worker-2", "fd00::2", "10.0.0.2")}
    assert job.resolve("10.0.0.2", watched=replaced) == Worker("training", "worker-2")
    with pytest.raises(UnknownHost):
        job.resolve("10.0.0.3", watched={"stranger": pod("stranger", "10.0.0.3")})


def test_the_watch_knows_a_workers_address_better_than_an_old_file(tmp_path: Path) -> None:
    job = Job(tmp_path, "worker-0\nworker-1\n", "10.0.0.1\tworker-0\n")
    watched = {"worker-1": pod("worker-1", "10.0.0.1")}  # worker-0 is gone, and its address was given away
    assert job.resolve("10.0.0.1", watched=watched) == Worker("training", "worker-1")


def test_a_pod_without_an_address_yet_is_no_trouble(tmp_path: Path) -> None:
    job = Job(tmp_path, "worker-0\n", "10.0.0.1\tworker-0\n")
    assert job.resolve("10.0.0.1", watched={"worker-0": pod("worker-0")}) == Worker("training", "worker-0")


def test_pods_that_only_their_addresses_tell_apart_are_workers_if_the_hostfile_has_these(tmp_path: Path) -> None:
    """A watch without a selector sees the namespace's pods where hosts are addresses: other jobs' too."""
    job = Job(tmp_path, "10.0.0.1 slots=2\n10.0.0.9\n")
    condition = {"type": "Ready", "status": "True"}
    watched = {
        name: pods.parse(
            {"metadata": {"name": name}, "status": {"phase": "Running", "conditions": [condition], "podIP": ip}}
        )
        for name, ip in (("w-0", "10.0.0.1"), ("stranger", "10.0.0.2"), ("launcher", "10.0.0.9"))
    }
    assert [*job.workers.seen(watched)] == ["w-0"]
    assert job.workers.discover(watched, None) == ["10.0.0.9:2", "10.0.0.1:2"]
