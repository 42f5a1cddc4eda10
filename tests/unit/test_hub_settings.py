"""What the hub makes of its options and its pod's environment."""

from __future__ import annotations

import pytest

from rshagent.hub.settings import parse

POD = {"POD_NAME": "pi-launcher-x7k2p", "POD_IPS": "10.0.0.9,fd00::9", "MPI_AGENT_LAUNCHER": "pi-launcher"}


def test_the_launcher_is_known_by_all_its_names() -> None:
    assert {"pi-launcher-x7k2p", "pi-launcher", "10.0.0.9", "fd00::9"} <= parse([], POD).own_names


def test_who_it_is_and_whose_processes_are_its() -> None:
    found = parse([], POD)
    assert (found.pod, found.launcher) == ("pi-launcher-x7k2p", "pi-launcher")
    assert parse([], {"HOSTNAME": "pi-launcher"}).launcher == "pi-launcher"


def test_an_option_wins_over_its_variable() -> None:
    environ = {"MPI_AGENT_SLOTS": "2", "MPI_AGENT_SELECTOR": "a=b"}
    assert (parse([], environ).slots, parse([], environ).selector) == (2, "a=b")
    found = parse(["--slots", "4", "--selector", "c=d"], environ)
    assert (found.slots, found.selector) == (4, "c=d")
    assert (parse([], {}).slots, parse([], {}).selector) == (None, "")


@pytest.mark.parametrize("slots", ["0", "-1", "two"])
def test_slots_that_are_none_are_refused(slots: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        parse([], {"MPI_AGENT_SLOTS": slots})
    assert error.value.code == 2
    assert "--slots" in capsys.readouterr().err
