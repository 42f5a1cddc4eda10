"""The plane's API server, as the benchmark uses it: raw, because what is spent here the machine does not have."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import urllib3

from tests.benchmarks.measure import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agents.playground.certs import Pair

_TIMEOUT_S = 60.0
_SILENCE_S = 600.0  # of a watch
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


class Api:
    """JSON requests as one user."""

    def __init__(self, server: str, authority: str, pair: Pair) -> None:
        self._server = server
        self._pool = urllib3.PoolManager(
            maxsize=8, ca_certs=authority, cert_file=pair.certificate, key_file=pair.key, retries=False
        )

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.clear()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One request and its answer. Raises BenchmarkError."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        answer = self._pool.request(method, self._server + path, body=data, headers=headers, timeout=_TIMEOUT_S)
        if answer.status >= 300:
            raise BenchmarkError(f"{method} {path}: {answer.status} {answer.data.decode(errors='replace')[:300]}")
        return answer.json()

    def text(self, path: str) -> str:
        """An answer that is no JSON."""
        text: str = self._pool.request("GET", self._server + path, timeout=_TIMEOUT_S).data.decode()
        return text

    def is_there(self, path: str) -> bool:
        """Whether there is such an object."""
        return bool(self._pool.request("GET", self._server + path, timeout=_TIMEOUT_S).status == 200)

    def is_ready(self) -> bool:
        """Whether the server answers, and says that it is ready."""
        try:
            return self.is_there("/readyz")
        except urllib3.exceptions.HTTPError:
            return False

    def watch(self, path: str, accept: str = "application/json") -> Iterator[bytes]:
        """The events of a list from now on, each as it comes; a watch that the server ends is taken up again."""
        return self._events(path, accept, self.call("GET", f"{path}?limit=1")["metadata"]["resourceVersion"])

    def _events(self, path: str, accept: str, version: str) -> Iterator[bytes]:
        timeout = urllib3.Timeout(connect=_TIMEOUT_S, read=_SILENCE_S)
        while True:
            url = f"{self._server}{path}?watch=true&resourceVersion={version}"
            answer = self._pool.request("GET", url, headers={"Accept": accept}, preload_content=False, timeout=timeout)
            for line in _lines(answer):
                found = _VERSION.search(line)  # the object's own comes first
                if found is None or line.startswith(b'{"type":"ERROR"'):
                    raise BenchmarkError(f"a watch of {path} ended: {line[:300].decode(errors='replace')}")
                version = found[1].decode()
                yield line


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(1 << 16, decode_content=False):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
