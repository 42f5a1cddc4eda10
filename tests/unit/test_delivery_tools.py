"""What delivery copies into the target folder: by which argument, each file whole, and what is said if it can't."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_folder import copy, folder, kube, mode

from delivery import settings, target, tools
from delivery.exits import TARGET, TOOL_MISSING, USAGE, DeliveryError
from tests.privileges import NO_CAPABILITIES, umask

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["folder", "kube"]


def test_client_is_copied_and_executable_by_all_whatever_the_umask(folder: Path, kube: Path) -> None:
    with umask(0o077):
        lines = copy("client", folder, kube)
    assert lines == [f"copied {folder}/rshagent to {kube}/rshagent"]
    assert (kube / "rshagent").read_bytes() == (folder / "rshagent").read_bytes()
    assert mode(kube / "rshagent") == 0o755
    assert os.listdir(kube) == ["rshagent"]


def test_what_is_no_program_is_not_made_one(folder: Path, kube: Path) -> None:
    (folder / "notes").write_text("text")
    copy("notes", folder, kube)
    assert mode(kube / "notes") == 0o644


def test_again_is_harmless_and_leaves_a_running_tool_alone(folder: Path, kube: Path) -> None:
    copy("client", folder, kube)
    before = (kube / "rshagent").stat().st_ino
    assert copy("client", folder, kube) == [f"{kube}/rshagent is there already"]
    assert (kube / "rshagent").stat().st_ino == before


@pytest.mark.parametrize("old", [b"older", b"\x7fELF" + bytes(299_999) + b"x"], ids=["size", "content"])
def test_other_version_is_replaced_as_a_whole(folder: Path, kube: Path, old: bytes) -> None:
    kube.mkdir(parents=True)
    (kube / "rshagent").write_bytes(old)
    (kube / "rshagent").chmod(0o755)
    with open(kube / "rshagent", "rb") as running:
        copy("client", folder, kube)
        assert running.read() == old
    assert (kube / "rshagent").read_bytes() == (folder / "rshagent").read_bytes()


def test_wrong_mode_is_put_right(folder: Path, kube: Path) -> None:
    copy("client", folder, kube)
    (kube / "rshagent").chmod(0o600)
    copy("client", folder, kube)
    assert mode(kube / "rshagent") == 0o755


def test_leftover_of_a_killed_delivery_is_taken_away(folder: Path, kube: Path) -> None:
    kube.mkdir(parents=True)
    (kube / ".rshagent.part").write_bytes(b"half")
    copy("client", folder, kube)
    assert os.listdir(kube) == ["rshagent"]


def test_link_in_the_target_is_replaced_not_followed(folder: Path, kube: Path, tmp_path: Path) -> None:
    kube.mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("untouched")
    (kube / "rshagent").symlink_to(tmp_path / "elsewhere")
    copy("client", folder, kube)
    assert not (kube / "rshagent").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "untouched"


TOOLS = {
    "client": ("rshagent", "rshagent"),
    "kubectl": ("kubectl", "kubectl"),
    "client:kubectl": ("rshagent", "kubectl"),
    "/bin/kubectl": ("/bin/kubectl", "kubectl"),
    "/a/b:sub/c": ("/a/b", "sub/c"),
}


@pytest.mark.parametrize("argument", TOOLS)
def test_tool_argument(argument: str) -> None:
    assert [(tool.source, tool.name) for tool in tools.parse(argument)] == [TOOLS[argument]]


@pytest.mark.parametrize(
    "argument",
    [
        *("", ":x", "x:", "direct:x", "kubectl-exec:x", "/a/b:/etc/passwd", "x:../y", "x:a/../../y"),
        *("/a/", "x:..", ".", "x:.", "x:a//b", "/.."),
    ],
)
def test_argument_that_names_no_tool_or_leaves_the_target(argument: str) -> None:
    with pytest.raises(DeliveryError) as error:
        tools.parse(argument)
    assert error.value.exit_code == USAGE


@given(st.text(max_size=30))
def test_no_argument_leaves_the_target(argument: str) -> None:
    try:
        found = tools.parse(argument)
    except DeliveryError:
        return
    for tool in found:
        assert os.path.normpath(os.path.join("/opt/kube", tool.name)).startswith("/opt/kube/")


def test_tool_is_found_on_path_but_never_the_client(folder: Path, kube: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = folder.parent / "bin"
    bin_folder.mkdir()
    for name in ("kubectl", "rshagent-direct"):
        (bin_folder / name).write_text("#!/bin/sh\n")
        (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    assert copy("kubectl", folder, kube) == [f"copied {bin_folder}/kubectl to {kube}/kubectl"]
    (folder / "rshagent-direct").unlink()
    with pytest.raises(DeliveryError):
        copy("direct", folder, kube)


def test_missing_tool_says_what_there_is(folder: Path, kube: Path) -> None:
    with pytest.raises(
        DeliveryError, match=r"nothing-like-it can't be read: No such .*; .*/tools has python, rshagent"
    ) as error:
        copy("nothing-like-it", folder, kube)
    assert error.value.exit_code == TOOL_MISSING
    with pytest.raises(DeliveryError, match="can't be read") as error:
        copy("client", folder / "none", kube)
    assert error.value.exit_code == TOOL_MISSING
    with pytest.raises(DeliveryError, match="is not a file") as error:
        copy(str(folder), folder, kube)
    assert error.value.exit_code == TOOL_MISSING


COPY = """
import sys
from delivery import tools
from delivery.exits import DeliveryError
try:
    tools.copy(tools.parse("client")[0], sys.argv[1], sys.argv[2])
except DeliveryError as error:
    print(error.exit_code, error)
"""


def test_target_that_may_not_be_written_is_one_clear_line(folder: Path, kube: Path) -> None:
    kube.mkdir(parents=True)
    kube.chmod(0o555)
    command = [*NO_CAPABILITIES, sys.executable, "-c", COPY, str(folder), str(kube)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    why = f"uid {os.geteuid()} may not write to {kube}"
    assert (done.stdout, done.stderr) == (f"{TARGET} {kube}/rshagent can't be written: {why}\n", "")


def test_full_target_is_one_clear_line_and_leaves_nothing(folder: Path, kube: Path) -> None:
    """A size limit stands for the full volume: both fail in the midst of writing."""
    kube.mkdir(parents=True)
    (kube / "rshagent").write_text("the one before")
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    command = [sys.executable, "-c", limit + COPY, str(folder), str(kube)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == f"{TARGET} {kube}/rshagent can't be written: a file there may not be that large\n"
    assert os.listdir(kube) == ["rshagent"]
    assert (kube / "rshagent").read_text() == "the one before"


MOUNTS = {"size=64k": "its file system is full", "ro": "its file system is read-only"}


@pytest.mark.parametrize("options", MOUNTS)
def test_file_system_that_takes_nothing_is_told(folder: Path, tmp_path: Path, options: str) -> None:
    """On a real tmpfs, where user namespaces let an ordinary user mount one."""
    small = tmp_path / "small"
    small.mkdir()
    in_namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o {options} none {small}"
    if subprocess.run([*in_namespace, mount], check=False, capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a file system")
    command = [*in_namespace, f'{mount} && exec "$@"', "sh", sys.executable, "-c", COPY, str(folder), str(small)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout == f"{TARGET} {small}/rshagent can't be written: {MOUNTS[options]}\n"


@pytest.mark.parametrize("there", ["folder", "file in the way"])
def test_target_of_the_wrong_kind(folder: Path, kube: Path, there: str) -> None:
    if there == "folder":
        (kube / "rshagent").mkdir(parents=True)
    else:
        kube.parent.mkdir()
        kube.write_text("")
    with pytest.raises(DeliveryError, match="can't be written") as error:
        copy("client", folder, kube)
    assert error.value.exit_code == TARGET


def test_hosts_file_is_readable_by_all_and_replaced_as_a_whole(kube: Path) -> None:
    with umask(0o077):
        target.write_file(str(kube / "hosts"), b"one\n")
        with open(kube / "hosts", "rb") as reader:
            target.write_file(str(kube / "hosts"), b"two\n")
            assert reader.read() == b"one\n"
    assert (kube / "hosts").read_bytes() == b"two\n"
    assert mode(kube / "hosts") == 0o644
    assert os.listdir(kube) == ["hosts"]


def test_in_kubectls_place_it_is_the_client_with_all_that_it_needs(
    folder: Path, kube: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lines = copy("kubectl-exec", folder, kube)
    assert lines[-1] == f"copied {folder}/rshagent to {kube}/kubectl"
    assert sorted(os.listdir(kube)) == ["kubectl", "python", "rshagent-direct"]
    assert (kube / "kubectl").read_bytes() == (folder / "rshagent").read_bytes()


def test_the_real_kubectl_comes_along_where_there_is_one(folder: Path, kube: Path) -> None:
    (folder / "kubectl").write_text("real")
    copy("kubectl-exec", folder, kube)
    assert (kube / "kubectl.real").read_text() == "real"
    assert (kube / "kubectl").read_bytes() == (folder / "rshagent").read_bytes()


OWN = "#!/opt/kube/rshagent\n"
UPSTREAM = """#!/bin/sh
set -x
POD_NAME=$1
shift
/opt/kube/kubectl exec ${POD_NAME} --container mpi -- /bin/sh -c "$*"
"""


@pytest.mark.parametrize(
    ("kubexec", "asked", "expected"),
    [
        (None, (), ["rshagent"]),
        (OWN, (), ["rshagent"]),
        (UPSTREAM, (), ["rshagent", "python", "rshagent-direct", "kubectl.real", "kubectl"]),
        (UPSTREAM, ("kubectl",), ["kubectl"]),
    ],
)
def test_what_is_copied_unasked_is_what_kubexec_calls(
    tmp_path: Path, kubexec: str | None, asked: tuple[str, ...], expected: list[str]
) -> None:
    if kubexec is not None:
        (tmp_path / "kubexec.sh").write_text(kubexec)
    found = settings.settings(settings.Options(tools=asked), {"MPI_AGENT_HOSTFILE": str(tmp_path / "hostfile")})
    assert [tool.name for tool in found.tools] == expected
