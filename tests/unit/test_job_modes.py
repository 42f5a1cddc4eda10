"""What a job's pods run where it is debugged, or continues after a pause."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import signal
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpijobs import annotated, job

from agents.job.model import LAUNCHER, WORKER, Dialect, Job, Override, Role
from agents.job.run_mode import WAIT, effective

VERSIONS = ["v1", "v2beta1", "t9k"]
WAITING = list(WAIT)
LINE = ["mpirun", "--hostfile", "/etc/mpi/hostfile", "/pi"]  # of T9k's smallest job
INIT = {"initContainers": [{"name": "fetch", "image": "example/fetch"}]}


def with_runs(made: Job) -> Job:
    """The job with init containers, with a second container, and with a command of kubeflow's own."""
    launcher, worker = ({**INIT, "containers": [*spec["containers"], {"name": "log"}]} for spec in _specs(made))
    if made.dialect is not Dialect.T9K:
        launcher["containers"][0] = {**launcher["containers"][0], "command": ["mpirun"], "args": ["-n", "2", "pi"]}
        worker["containers"][0] = {**worker["containers"][0], "command": ["/usr/sbin/sshd"], "args": ["-De"]}
    return dataclasses.replace(
        made,
        launcher=dataclasses.replace(made.launcher, template={"spec": launcher}),
        worker=dataclasses.replace(made.worker, template={"spec": worker}),
    )


def debugged(version: str, **overrides: Override) -> Job:
    return dataclasses.replace(with_runs(job(version)), debug=overrides)


def resumed(version: str, **overrides: Override) -> Job:
    return dataclasses.replace(with_runs(job(version)), resume=overrides)


def run(role: Role) -> tuple[Any, Any]:
    main, other = role.template["spec"]["containers"]
    assert other == {"name": "log"}
    return main.get("command"), main.get("args")


def _specs(made: Job) -> list[Any]:
    return [made.launcher.template["spec"], made.worker.template["spec"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_debugged_launcher_waits_and_workers_are_as_ever(version: str) -> None:
    before = debugged(version)
    found = effective(before, is_resumed=False)
    assert run(found.launcher) == (WAITING, None)
    assert found.worker == before.worker
    assert found.launcher.template["spec"]["initContainers"] == INIT["initContainers"]
    assert found.launch_command == before.launch_command


@pytest.mark.parametrize("version", VERSIONS)
def test_debugging_by_ones_own_commands(version: str) -> None:
    launcher, worker = Override(("sleep", "inf")), Override(("sleep", "1"), skips_init_containers=True)
    found = effective(debugged(version, launcher=launcher, worker=worker), is_resumed=True)
    assert run(found.launcher) == (["sleep", "inf"], None)
    assert run(found.worker) == (["sleep", "1"], None)
    assert "initContainers" in found.launcher.template["spec"]
    assert "initContainers" not in found.worker.template["spec"]


def test_debugged_launcher_is_not_held_back_by_workers_that_never_are_ready() -> None:
    assert not effective(dataclasses.replace(debugged("t9k"), launcher_waits=True), is_resumed=False).launcher_waits


def test_debugging_goes_before_what_was_to_be_resumed() -> None:
    before = dataclasses.replace(debugged("t9k"), resume={LAUNCHER: Override(("a",))})
    assert run(effective(before, is_resumed=True).launcher) == (WAITING, None)


@pytest.mark.parametrize(
    ("version", "override", "expected"),
    [
        ("v2beta1", Override(("/bin/go",)), (["/bin/go"], None)),
        ("v2beta1", Override(("/bin/go",), ("on",)), (["/bin/go"], ["on"])),
        ("v2beta1", Override(args=("-n", "1", "pi")), (["mpirun"], ["-n", "1", "pi"])),
        ("v2beta1", Override(), (["mpirun"], ["-n", "2", "pi"])),
        ("t9k", Override(("/bin/go",), ("on",)), (["/bin/go"], ["on"])),
        ("t9k", Override(args=("--resume",)), (LINE, ["--resume"])),
        ("t9k", Override(skips_init_containers=True), (LINE, None)),
    ],
)
def test_resumed_launcher(version: str, override: Override, expected: tuple[Any, Any]) -> None:
    before = resumed(version, launcher=override)
    found = effective(before, is_resumed=True)
    assert run(found.launcher) == expected
    assert ("initContainers" in found.launcher.template["spec"]) is not override.skips_init_containers
    assert found.worker == before.worker
    if version == "t9k":
        assert found.launch_command == (*expected[0], *(expected[1] or ()))


@pytest.mark.parametrize(
    ("override", "sshd_path"),
    [
        (Override(("/usr/bin/sshd",)), "/usr/sbin/sshd"),  # T9k's own example: no distribution has it there
        (Override(("/usr/bin/sshd", "-D")), "/usr/sbin/sshd"),
        (Override(("/opt/sbin/sshd",), ("-D", "-e")), "/opt/sbin/sshd"),
    ],
)
def test_lone_sshd_is_what_the_transport_starts_by_itself(override: Override, sshd_path: str) -> None:
    found = effective(resumed("t9k", worker=override), is_resumed=True)
    assert run(found.worker) == (None, None)
    assert found.ssh.sshd_path == sshd_path


@pytest.mark.parametrize("command", [("/usr/sbin/sshd", "-D", "-f", "/my"), ("sshd", "-D"), ("/bin/sleep", "-D")])
def test_other_commands_of_workers_are_run_as_they_are(command: tuple[str, ...]) -> None:
    found = effective(resumed("t9k", worker=Override(command)), is_resumed=True)
    assert run(found.worker) == (list(command), None)
    assert found.ssh.sshd_path == "/usr/sbin/sshd"


def test_main_container_is_the_one_that_is_named() -> None:
    spec = {"containers": [{"name": "log"}, {"name": "mpi"}]}
    named = dataclasses.replace(job("v1"), main_container="mpi", resume={WORKER: Override(("go",))})
    before = dataclasses.replace(named, worker=dataclasses.replace(named.worker, template={"spec": spec}))
    found = effective(before, is_resumed=True)
    assert found.worker.template["spec"]["containers"] == [{"name": "log"}, {"name": "mpi", "command": ["go"]}]


def test_jobs_without_workers() -> None:
    before = dataclasses.replace(job("v1"), worker=Role(0, job("v1").worker.restart_policy, {}), debug={})
    override = {WORKER: Override(("go",))}
    assert effective(dataclasses.replace(before, debug=override), is_resumed=False).worker == before.worker


OVERRIDES = st.dictionaries(
    st.sampled_from([LAUNCHER, WORKER]),
    st.builds(
        Override,
        st.none() | st.lists(st.sampled_from(["/usr/bin/sshd", "-D", "a"]), min_size=1, max_size=3).map(tuple),
        st.none() | st.lists(st.sampled_from(["-D", "b"]), min_size=1, max_size=2).map(tuple),
        st.booleans(),
    ),
)


@given(st.sampled_from(VERSIONS), OVERRIDES, st.none() | OVERRIDES, st.booleans())
def test_any_overrides(version: str, resume: Any, debug: Any, is_resumed: bool) -> None:
    given_job = dataclasses.replace(with_runs(job(version)), resume=resume, debug=debug)
    before = copy.deepcopy(given_job)
    found = effective(given_job, is_resumed=is_resumed)
    assert given_job == before
    if debug is None and not is_resumed:
        assert found is given_job
    for role, was in ((found.launcher, before.launcher), (found.worker, before.worker)):
        main, other = role.template["spec"]["containers"]
        old = was.template["spec"]["containers"][0]
        assert other == {"name": "log"}
        assert {**main, "command": None, "args": None} == {**old, "command": None, "args": None}
        assert all(main.get(key, ["x"]) for key in ("command", "args"))
    changed = {
        field.name for field in dataclasses.fields(Job) if getattr(found, field.name) != getattr(before, field.name)
    }
    assert changed <= {"launcher", "worker", "ssh", "launch_command", "launcher_waits"}


@pytest.mark.parametrize("version", VERSIONS)
def test_annotations_switch_both_modes_on_and_off(version: str) -> None:
    assert job(version).debug is None
    assert job(version, annotated(debug="true")).debug == {}
    assert job(version, {"spec/runMode/debug/enabled": True, **annotated(debug="false")}).debug is None
    assert job(version, annotated(pause="true")).policy.is_suspended
    paused = {"spec/runMode/pause/enabled": True}
    assert job(version, paused).policy.is_suspended
    assert not job(version, {**paused, **annotated(pause="false")}).policy.is_suspended
    overrides = {"spec/runMode/debug/replicaSpecs": [{"type": "worker", "skipInitContainer": True}]}
    assert job(version, overrides).debug is None
    assert job(version, {**overrides, **annotated(debug="true")}).debug == {WORKER: Override(None, None, True)}


def test_waiting_ends_when_told_to() -> None:
    shell, option, script = WAIT
    told = script.replace("TERM;", "TERM; echo;", 1)
    with subprocess.Popen([shell, option, told], stdout=subprocess.PIPE, start_new_session=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"\n"
        waiting.terminate()
        try:
            assert waiting.wait(60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):  # its sleep, which a container's end takes along
                os.killpg(waiting.pid, signal.SIGKILL)
