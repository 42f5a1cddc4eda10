"""The test cluster's own parts that can be tested without one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cluster.local import components
from tests.cluster.local.build import go_mod
from tests.cluster.local.daemons import Daemon, until
from tests.cluster.local.places import DEFAULT_VERSION, Places, SetupError

if TYPE_CHECKING:
    from pathlib import Path

FOREVER = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_VERSION", raising=False)
    return Places.of()


@pytest.mark.parametrize(("asked", "version"), [(None, DEFAULT_VERSION), ("1.29.15", "1.29.15"), ("v1.30.2", "1.30.2")])
def test_a_release(places: Places, asked: str | None, version: str) -> None:
    assert Places.of(asked).version == version
    assert Places.of(asked).bin.parent == places.cache


@pytest.mark.parametrize("asked", ["1.29", "latest", "1.29.x", "../1.2.3"])
def test_what_is_no_release(places: Places, asked: str) -> None:
    with pytest.raises(SetupError, match="a whole release"):
        Places.of(asked)


def test_kubernetes_is_built_with_the_staging_modules_that_its_own_go_mod_names() -> None:
    own = "require (\n\tk8s.io/utils v1\n)\nreplace (\n\tk8s.io/kubelet => ./staging/src/k8s.io/kubelet\n)\n"
    lines = go_mod("1.29.15", own).splitlines()
    assert "require k8s.io/kubernetes v1.29.15" in lines
    assert [line for line in lines if "=>" in line] == ["\tk8s.io/kubelet => k8s.io/kubelet v0.29.15"]


def test_programs_of_another_go_mod_are_in_another_folder(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = places.cache / "containerd"
    folder.mkdir(parents=True)
    monkeypatch.setattr("tests.cluster.local.places.MODULES", places.cache)
    found = set()
    for version in ("v1", "v2"):
        (folder / "go.mod").write_text(version)
        found.add(places.containerd)
    assert len(found) == 2
    assert {path.parent for path in found} == {places.cache}


def test_a_setting_that_older_kubelets_refuse_is_kept_from_them(places: Places) -> None:
    for version, is_there in (("1.34.2", False), ("1.35.0", True)):
        old = Places(places.cache, version)
        components.write_configuration(old)
        assert ("imagePullCredentialsVerificationPolicy" in (old.run / "kubelet.json").read_text()) == is_there


def test_a_daemon_outlives_nobody_who_stops_it(tmp_path: Path) -> None:
    daemon = Daemon("sleeper", FOREVER, tmp_path, tmp_path)
    assert daemon.pid is None
    daemon.start()
    pid = daemon.pid
    assert pid is not None
    daemon.start()
    assert daemon.pid == pid  # one is enough
    daemon.stop()
    assert daemon.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    daemon.stop()


def test_another_process_with_a_daemons_number_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sleeper.pid").write_text(f"{os.getpid()} 1")
    daemon = Daemon("sleeper", FOREVER, tmp_path, tmp_path)
    assert daemon.pid is None
    daemon.stop()  # or this test would end here


def test_a_daemon_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    talker = "import sys; sys.exit('the port is taken')"
    daemon = Daemon("talker", [sys.executable, "-c", talker], tmp_path, tmp_path)

    def start() -> None:
        daemon.start()
        until("its start", lambda: False, 60, daemon)

    with pytest.raises(SetupError, match=r"talker ended.*the port is taken"):
        start()
