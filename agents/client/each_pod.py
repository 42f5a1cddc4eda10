"""Runs a request for many pods, several in parallel: a pod that fails gives a line, and the others continue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from agents.client.errors import ClientError, ForbiddenError
from agents.client.facts import PodFacts

_AT_ONCE = 8

_T = TypeVar("_T")


def ignore(_line: str) -> None:
    """Show no progress."""


def each_pod(
    pods: Sequence[PodFacts], ask: Callable[[PodFacts], _T], progress: Callable[[str], None] = ignore
) -> tuple[dict[str, _T], list[str]]:
    """Return the answers, by pod, and a line for each pod for which `ask` raises ClientError or ValueError.

    `progress` gets a line for each answer. Raises ForbiddenError.
    """
    found, notes = {}, []
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        for number, (name, answer) in enumerate([(pod.name, pool.submit(ask, pod)) for pod in pods], 1):
            try:
                found[name] = answer.result()
            except ForbiddenError:
                raise
            except (ClientError, ValueError) as error:
                notes.append(f"{name}: {str(error).removeprefix(f'{name}: ')}")
            progress(f"asked {number} of {len(pods)} pods")
    finally:
        pool.shutdown(cancel_futures=True)
    return found, notes
