"""The Docker engine that the user has: build, save, push. It starts none."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import docker
import docker.errors
import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .progress import Progress

_TIMEOUT_S = 3600  # without a byte from the engine: a step of a build may say nothing for long
_MIB = 2**20
_COMPRESSION = 6
CONTENT = "mpi-agents.content"  # label of an image: what it was built from


class EngineError(Exception):
    """The engine is not there, or did not do it: one line for people, and what it said before."""

    def __init__(self, text: str, said: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.said = said


class _Stream(io.RawIOBase):
    """Chunks of bytes as a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._rest = iter(chunks), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._chunks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


class Engine:
    """A connection to the engine of DOCKER_HOST. Raises EngineError if there is none."""

    def __init__(self) -> None:
        where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        try:
            self._api = docker.DockerClient.from_env(timeout=_TIMEOUT_S).api
            self._api.ping()
        except (docker.errors.DockerException, requests.RequestException) as error:
            why = "permission denied" if "Permission denied" in str(error) else "none answers"
            text = f"no Docker engine at {where} ({why}): start it, or set DOCKER_HOST to one that you may use"
            raise EngineError(text) from None

    @property
    def architecture(self) -> str:
        """The engine's own, as Go calls it."""
        return str(self._api.version()["Arch"])

    def build(
        self,
        tag: str,
        context: str,
        dockerfile: str,
        progress: Progress,
        *,
        arguments: Mapping[str, str],
        network: str | None,
        platform: str | None,
        content: str = "",
    ) -> None:
        """Build an image, labelled with its `content`. Raises EngineError."""
        build = partial(
            self._api.build,
            path=context,
            dockerfile=dockerfile,
            tag=tag,
            buildargs=dict(arguments),
            network_mode=network,
            platform=platform,
            labels={CONTENT: content} if content else None,
            rm=True,
            forcerm=True,
            decode=True,
        )
        self._follow(build, progress, f"{tag} can't be built")

    def keep(self, tag: str, content: str) -> bool:
        """Give the tag to an image of this content; return whether there is one."""
        found = self._api.images(filters={"label": f"{CONTENT}={content}"})
        if found:
            repository, _, version = tag.rpartition(":")
            self._api.tag(found[0]["Id"], repository, version, force=True)
        return bool(found)

    def push(self, tag: str, progress: Progress) -> None:
        """Push an image with the credentials that `docker login` has left. Raises EngineError."""
        repository, _, version = tag.rpartition(":")
        push = partial(self._api.push, repository, version, stream=True, decode=True)
        self._follow(push, progress, f"{tag} can't be pushed")

    def inspect(self, tag: str) -> Mapping[str, Any]:
        """What the engine knows of an image."""
        return self._api.inspect_image(tag)  # type: ignore[no-any-return]

    @contextmanager
    def files(self, tag: str) -> Iterator[tarfile.TarFile]:
        """An image's file system, to be read once from its beginning. Raises EngineError."""
        try:
            container = self._api.create_container(tag, command=["none"], network_disabled=True)["Id"]
            try:
                whole = io.BufferedReader(_Stream(self._api.export(container, chunk_size=_MIB)), _MIB)
                with tarfile.open(fileobj=whole, mode="r|") as archive:
                    yield archive
            finally:
                self._api.remove_container(container)
        except (docker.errors.DockerException, requests.RequestException, tarfile.TarError) as error:
            raise EngineError(f"the files of {tag} can't be read: {error}") from None

    def save(self, tags: Sequence[str], path: str, report: Callable[[str], None]) -> None:
        """Write images into one archive, compressed if `path` ends in gz. Raises EngineError."""
        part = f"{path}.part"
        try:
            with open(part, "wb") as file:
                self._copy_archive(tags, file, is_packed=path.endswith("gz"), report=report)
            os.replace(part, path)
        except (OSError, requests.RequestException) as error:
            raise EngineError(f"{path} can't be written: {error}") from None
        finally:
            if os.path.exists(part):
                os.unlink(part)

    def _copy_archive(
        self, tags: Sequence[str], file: IO[bytes], *, is_packed: bool, report: Callable[[str], None]
    ) -> None:
        # The SDK saves one image an archive; the API takes several, which share their layers then.
        url = f"{self._api.base_url}/v{self._api.api_version}/images/get"
        done = 0
        with self._api.get(url, params={"names": list(tags)}, stream=True) as answer:
            answer.raise_for_status()
            with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) if is_packed else nullcontext(file) as out:
                for chunk in answer.iter_content(_MIB):
                    out.write(chunk)
                    done += len(chunk)
                    report(f"{done / _MIB:.0f} MiB")

    @staticmethod
    def _follow(begin: Callable[[], Iterable[Mapping[str, Any]]], progress: Progress, failed: str) -> None:
        try:
            for event in begin():
                progress.event(event)
        except (docker.errors.DockerException, requests.RequestException) as error:
            raise EngineError(f"{failed}: {error}") from None
        if progress.error:
            raise EngineError(f"{failed}: {progress.error}", progress.lines)
