"""The cluster tier's command line, behind `make test-core`, `test-cluster`, `test-release`, `cluster-up` and others.

Where KUBECONFIG is set, that cluster is used, and has the images already (docs/images.md). Else a cluster of our own is
brought up (`tests.cluster.local`) with fresh images in it, and taken down at the end unless it was up before.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from images import catalog
from rshagent.native.client_build import BuildError
from tests.cluster.images import NPB, REPOSITORY, is_asked_for
from tests.cluster.local.cluster import LocalCluster
from tests.cluster.local.places import DEFAULT_VERSION, Places, SetupError
from tests.cluster.operators import kubectl_delivery
from tests.cluster.released import Found, write

if TYPE_CHECKING:
    from collections.abc import Sequence

# Built on each run, from layers that are there already. The others take up to a quarter of an hour the first time, or
# are large: built where CLUSTER_IMAGES says so, kept, and in the cluster of each run while their files stay the same.
BARE = ("bare-static", "bare-musl", "bare-glibc231")
WITH_SSHD = ("openmpi4-ssh", "openmpi5-ssh", "mpich-ssh", "intel-ssh")
VIRTUAL = ("runtime", "mpi", "mpi4", "mpi-runtime", "canopie")
IMAGES = ("mpi-agents", "mpi-agents-kubectl", "openmpi4", "openmpi5", "mpich", "intel", *WITH_SSHD, *VIRTUAL, *BARE)
SLOW_IMAGES = tuple(image.name for image in catalog.IMAGES.values() if image.is_kept)
# Groups in the order of tests.cluster.turns.
_PYTEST = (sys.executable, "-m", "pytest", "tests/cluster", "-n3", "--dist=loadgroup", "--no-loadscope-reorder")
VERSIONS = ("1.31.4", "1.35.4", DEFAULT_VERSION)  # of Kubernetes: the oldest supported, one between, and today's


@click.group(help=__doc__)
def command() -> None:
    """Group of commands."""


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def test(words: Sequence[str]) -> None:
    """Run the tests but those of a release, unless `-m` is among WORDS, which go to pytest."""
    sys.exit(_with_cluster([*_PYTEST, "-m", "not release", *words]))


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def release(words: Sequence[str]) -> None:
    """Run the core tests on each of VERSIONS, and those of a release on the last; write what they found."""
    if os.environ.get("KUBECONFIG"):
        raise SetupError("releases of Kubernetes are tested on clusters of our own: unset KUBECONFIG")
    found: dict[str, Found] = {}
    code = 0
    for version in VERSIONS:
        os.environ["KUBERNETES_VERSION"] = version
        chosen = "core or release or needs_image" if version == VERSIONS[-1] else "core"
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            code |= _with_cluster([*_PYTEST, "-m", chosen, f"--junit-xml={report}", *words])
            found[version] = Found.of(report)
    write(found, datetime.datetime.now(datetime.UTC).date())
    sys.exit(code)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def bench(words: Sequence[str]) -> None:
    """Run the benchmark; WORDS are its options."""
    sys.exit(_with_cluster([sys.executable, "-m", "tests.benchmarks.cluster", *words]))


@command.command()
def up() -> None:
    """Bring a cluster up, and say how to use it."""
    cluster = LocalCluster(Places.of(), _say)
    _bring_up(cluster)
    click.echo(f"export KUBECONFIG={cluster.places.kubeconfig} PATH={cluster.places.bin}:$PATH")


@command.command()
def down() -> None:
    """Take it down."""
    LocalCluster(Places.of(), _say).down()


@command.command("images", hidden=True)
def build_images() -> None:
    """Build today's images in the engine, which runs; their full names go to stdout."""
    cluster = LocalCluster(Places.of(), _say)
    cluster.engine.make_bases()
    options = ["--unpinned", "--network", "host", "--repository", REPOSITORY]  # the engine's bases are its own
    options += ["--npb", str(NPB)] if NPB.exists() else []
    names = [*IMAGES, *(name for name in SLOW_IMAGES if _is_wanted(cluster, name))]
    builder = [sys.executable, "-m", "images.build", *options, *names]
    if code := subprocess.run(builder, env=cluster.engine.environment, check=False).returncode:
        sys.exit(code)
    click.echo(kubectl_delivery.build(cluster.places, cluster.engine, _say))


def _with_cluster(words: list[str]) -> int:
    """Run a command with KUBECONFIG naming a cluster that has the images; its exit code."""
    cluster = LocalCluster(Places.of(), _say)
    named = os.environ.get("KUBECONFIG")
    if named and Path(named).resolve() != cluster.places.kubeconfig.resolve():
        return subprocess.run(words, check=False).returncode
    was_up = cluster.is_up
    if not was_up and cluster.places.run.exists():
        cluster.down()  # one whose daemons died with the machine would start its jobs again, beside the tests
    try:
        _bring_up(cluster)
        env = {**os.environ, "KUBECONFIG": str(cluster.places.kubeconfig)}
        return subprocess.run(words, check=False, env=env).returncode
    finally:
        if not was_up:
            cluster.down()


def _bring_up(cluster: LocalCluster) -> None:
    """Bring the cluster up with today's images in it. Raises SetupError."""
    try:
        cluster.prepare()
        # A build of images keeps one processor busy at most times, and so runs beside that of Kubernetes.
        builder = [sys.executable, "-m", "tests.cluster", "images"]
        with contextlib.ExitStack() as stack:
            env = os.environ | {"TERM": "dumb"}
            building = stack.enter_context(subprocess.Popen(builder, env=env, stdout=subprocess.PIPE, text=True))
            stack.callback(building.terminate)
            cluster.up()
            built, _ = building.communicate()
        if building.returncode:
            raise SetupError("the images could not be built")
        cluster.load_built(built.split())
    finally:
        cluster.engine.stop()


def _is_wanted(cluster: LocalCluster, name: str) -> bool:
    """Whether an image that takes long is asked for, or kept; not where the file is missing that it is built from."""
    slow = catalog.IMAGES[name]
    if slow.given and not NPB.exists():
        return False
    return is_asked_for(name) or cluster.engine.has_content(slow.content(slow.by_tag(), None, True, given=str(NPB)))


def _say(text: str) -> None:
    click.echo(f"cluster: {text}", err=True)


def main() -> int:
    """Run the command line; also when we are told to end, the cluster that we brought up is taken down."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        command(standalone_mode=False)
    except click.ClickException as error:
        _say(error.format_message())
        return 2
    except subprocess.CalledProcessError as error:
        said = (error.stderr or b"").decode(errors="replace").strip()
        _say(f"{' '.join(map(str, error.cmd))} failed ({error.returncode}): {said}")
        return 1
    except (BuildError, SetupError, OSError) as error:
        _say(str(error))
        return 1
    except (click.Abort, KeyboardInterrupt):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
