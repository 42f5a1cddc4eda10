"""Building images: which there are, what is said meanwhile, what is taken along, and what is said without an engine."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from images import catalog, kubectl, relocatable
from images.progress import Progress

DOCKERFILE = os.path.join(catalog.AGENTS.context, catalog.AGENTS.dockerfile)
STEPS = [
    {"stream": "Step 1/2 : FROM debian AS build\n"},
    {"stream": " ---> 800db9a00d98\n"},
    {"stream": "Step 2/2 : RUN apt-get update"},
    {"stream": "     && true\n"},
    {"stream": "\x1b[91mHit: one\nHit:"},
    {"stream": " two\n\x1b[0m"},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("name", "prefix", "tag"),
    [
        ("mpi-agents", "", "mpi-agents:1.2"),
        ("mpi-agents", "registry.example:5000/team/", "registry.example:5000/team/mpi-agents:1.2"),
        ("mpi-agents-kubectl", "", "mpi-agents:1.2-kubectl"),
        ("openmpi4", "example.org", "example.org/mpi-agents-example-openmpi4:1.2"),
    ],
)
def test_full_names(name: str, prefix: str, tag: str) -> None:
    assert catalog.IMAGES[name].tag("1.2", prefix) == tag


def test_an_image_comes_after_the_one_that_it_stands_on() -> None:
    names = [image.name for image in catalog.in_order(("openmpi4", "mpi-agents-kubectl"))]
    assert names == ["mpi-agents", "mpi-agents-kubectl", "openmpi4"]
    assert [image.name for image in catalog.in_order(("intel-ssh",))] == ["intel", "intel-ssh"]
    assert catalog.in_order(()) == [catalog.AGENTS]


@pytest.mark.parametrize(("out", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb")])
def test_elsewhere_than_on_a_terminal_a_step_is_a_line(
    out: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    progress = Progress("it", out)
    for event in STEPS:
        progress.event(event)
    progress.done("it is done")
    assert out.getvalue() == "it 1/2 FROM debian AS build\nit 2/2 RUN apt-get update && true\nit is done\n"


def test_on_a_terminal_all_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = Progress("it", out)
    for event in [*STEPS, {"status": "Pushing", "id": "abc", "progress": "1 of 2"}]:
        progress.event(event)
    progress.done("it is done")
    shown = re.sub(r"\d+ s", "0 s", out.getvalue()).split("\r\x1b[K")
    assert shown[-4:] == [
        "it 2/2 0 s · Hit: one",
        "it 2/2 0 s · Hit: two",
        "it 2/2 0 s · abc: Pushing 1 o",
        "it is done\n",
    ]
    assert max(map(len, shown)) <= 29


def test_a_failed_step_keeps_its_last_lines() -> None:
    progress = Progress("it", io.StringIO())
    for event in [*STEPS, {"stream": "".join(f"{n}\n" for n in range(50))}, {"error": "it returned 1\n"}]:
        progress.event(event)
    assert progress.lines == [str(n) for n in range(30, 50)]
    assert progress.error == "it returned 1"


def test_what_a_package_imports_anywhere_is_taken_along(tmp_path: Path) -> None:
    (tmp_path / "it" / "inner").mkdir(parents=True)
    (tmp_path / "it" / "__init__.py").write_text("def late():\n    import json\n")
    (tmp_path / "it" / "inner" / "__init__.py").touch()
    (tmp_path / "it" / "inner" / "__main__.py").write_text("from it.inner import other\n")
    (tmp_path / "it" / "inner" / "other.py").write_text("import random  # which would be left out otherwise\n")
    found = relocatable.closure(str(tmp_path), "it")
    ours = {"it/__init__.py", "it/inner/__init__.py", "it/inner/__main__.py", "it/inner/other.py"}
    assert {place for place in found if place.startswith("it/")} == ours
    assert {"json/__init__.py", "json/decoder.py", "random.py", "encodings/idna.py"} <= found.keys()
    assert not {"unittest/__init__.py", "email/__init__.py"} & found.keys()


def test_the_delivered_python_has_all_of_the_rsh_agent_and_little_else() -> None:
    found = relocatable.closure(catalog.ROOT, "rshagent")
    assert {"rshagent/hub/cli.py", "rshagent/hub/__main__.py", "traceback.py", "argparse.py"} <= found.keys()
    assert "agents/common/loop.py" in found
    assert {name for name in found if name.startswith("agents/")} <= {
        name for name in found if name.startswith("agents/common/") or name == "agents/__init__.py"
    }
    assert "rshagent/native/client_build.py" not in found
    assert sum(os.path.getsize(path) for path in found.values() if path.endswith(".py")) < 3e6


COMMANDS = ("agents.operator.process", "delivery.cli", "rshagent.hub.cli", "sshd_bootstrap.cli")


@pytest.mark.parametrize("module", COMMANDS)
def test_the_image_has_all_modules_that_its_commands_import(module: str) -> None:
    code = f"import {module}, sys; print([getattr(one, '__file__', None) or '' for one in sys.modules.values()])"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=catalog.ROOT, capture_output=True, text=True, check=True)
    packages = sysconfig.get_path("purelib")
    packed = relocatable.everything(packages).values()
    imported = [path for path in ast.literal_eval(done.stdout) if path.startswith((relocatable.STDLIB, packages))]
    assert [path for path in imported if path.endswith(".py") and path not in packed] == []


def test_of_the_operators_packages_only_what_it_can_reach_is_packed(tmp_path: Path) -> None:
    kept = {
        *("agents/operator/cli.py", "typing_extensions.py", "certifi/cacert.pem", "click-8.5.dist-info/METADATA"),
        "_cffi_backend.cpython-311-x86_64-linux-gnu.so",
        *(
            "kubernetes/client/api_client.py",
            "kubernetes/client/models/__init__.py",
            "kubernetes/config/kube_config.py",
        ),
    }
    left = {
        *("kubernetes/client/models/v1_pod.py", "kubernetes/client/api/core_v1_api.py", "kubernetes/aio/rest.py"),
        *("aiohttp/client.py", "aiohttp-3.14.dist-info/METADATA", "tzdata/zones", "yaml/_yaml.pyx", "bin/normalizer"),
        *("cffi/api.py", "pycparser/c_parser.py"),
        "agents/operator/__pycache__/cli.cpython-311.pyc",
    }
    for path in kept | left:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    packed = {path for path in relocatable.everything(str(tmp_path)) if path.startswith("dist-packages/")}
    assert packed == {f"dist-packages/{path}" for path in kept}


def test_compiled_modules_stand_without_their_sources(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text("answer = 42\n")
    relocatable.copy_library({"pack/one.py": str(source)}, str(tmp_path / "lib"))
    assert [path.name for path in (tmp_path / "lib" / "pack").iterdir()] == ["one.pyc"]
    assert (tmp_path / "lib" / "pack" / "one.pyc").read_bytes()[4:8] == b"\1\0\0\0"  # by hash, and unchecked


def test_a_folder_is_known_by_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    first = relocatable.digest(str(tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    second = relocatable.digest(str(tmp_path))
    (tmp_path / "b").write_text("2")
    assert len({first, second, relocatable.digest(str(tmp_path))}) == 3


def test_what_is_the_same_twice_takes_room_once(tmp_path: Path) -> None:
    for name, content, mode in (("a", "1", 0o755), ("in/b", "1", 0o755), ("c", "1", 0o644), ("d", "2", 0o755)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("a")
    relocatable.share(str(tmp_path))
    numbers = {name: (tmp_path / name).lstat().st_ino for name in ("a", "in/b", "c", "d", "link")}
    assert numbers["a"] == numbers["in/b"]
    assert len(set(numbers.values())) == 4
    assert [(tmp_path / name).read_text() for name in ("a", "in/b", "c", "d", "link")] == ["1", "1", "1", "2", "1"]


def test_our_image_has_a_command_for_each_role() -> None:
    with open(os.path.join(catalog.ROOT, "pyproject.toml"), "rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    (packed,) = re.findall(r"relocatable root /image /packages \\\n *(.*?) \\\n", Path(DOCKERFILE).read_text())
    # What starts a hub is a compiled program; the playground and kubectl mpi are for one's own machine.
    ours = {"rshagent-direct", "mpi-playground", "kubectl-mpi", "kubectl_complete-mpi"}
    assert {*packed.split()} == scripts.keys() - ours


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("/nowhere/kubectl", "kubectl can't be copied from /nowhere/kubectl: No such file or directory"),
        (__file__, f"what {__file__} gives is not a Linux program"),
        ("http://127.0.0.1:9/kubectl", "kubectl can't be fetched from http://127.0.0.1:9/kubectl: "),
    ],
)
def test_no_kubectl_is_one_line(tmp_path: Path, source: str, says: str) -> None:
    with pytest.raises(kubectl.KubectlError) as caught:
        kubectl.fetch(source, str(tmp_path / "kubectl"), architecture="amd64", index_url=None)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def run_build(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "images.build", *words],
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"},
        cwd=catalog.ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_an_engine_it_says_what_to_do() -> None:
    done = run_build()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "images: no Docker engine at unix:///nowhere/docker.sock (none answers): "
        "start it, or set DOCKER_HOST to one that you may use\n"
    )


def test_a_push_goes_to_a_repository() -> None:
    done = run_build("--push")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--push needs --repository" in done.stderr


def test_what_an_image_is_built_from_is_told_by_a_hash(tmp_path: Path) -> None:
    """Of the Dockerfile, the files that it copies and the build's options; whatever else lies beside them."""
    image = catalog.Image("it", "it", "of/Dockerfile", str(tmp_path))
    (tmp_path / "of").mkdir()
    dockerfile, program, other = tmp_path / "of" / "Dockerfile", tmp_path / "pi.c", tmp_path / "of" / "train.py"
    dockerfile.write_text("FROM x AS build\nCOPY --chmod=644 pi.c of/train.py /src/\nCOPY --from=build /usr/local/ /\n")
    for file in (program, other):
        file.write_text("1")
    found = [image.content()]
    (tmp_path / "ping.c").write_text("not copied")
    assert image.content() == found[0]
    for file in (program, other):
        file.write_text("2")
        found.append(image.content())
    dockerfile.write_text(dockerfile.read_text() + "ENV A=b\n")
    found += [image.content(), image.content({"BASE": "debian:trixie-slim"})]
    assert len(set(found)) == len(found)


def test_of_the_images_that_are_kept_all_files_are_there(tmp_path: Path) -> None:
    archive = tmp_path / "NPB3.4.2.tar.gz"
    archive.write_text("1")
    kept = {image.name: image.content(given=str(archive)) for image in catalog.IMAGES.values() if image.is_kept}
    podman = {"runtime-podman", "canopie-podman"}
    assert kept.keys() == {"horovod", "npb", "npb-runtime", "gromacs", "gromacs-runtime", *podman}
    assert len({*kept.values()}) == len(kept)  # with a runtime it is another image, though the Dockerfile is the same
    archive.write_text("2")
    again = {name: catalog.IMAGES[name].content(given=str(archive)) for name in kept}
    assert {name for name in kept if kept[name] != again[name]} == {"npb", "npb-runtime"}


def test_an_image_of_the_users_own_file_asks_for_it() -> None:
    done = run_build("npb-runtime")
    assert (done.returncode, done.stdout) == (2, "")
    assert "npb-runtime is built from a file that you provide: --npb NPB3.4.2.tar.gz" in done.stderr
