"""What is printed when a test on a cluster fails: the pods, their events and their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.cluster import pods as of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kube import Namespace, Object

_PODS_MAX = 8  # of those that say most
_LINES_MAX = 40  # a log


def describe(namespace: Namespace) -> str:
    """Everything that may say why, longest last. Never raises: the test's own failure matters more."""
    parts: list[str] = []
    try:
        parts.extend(_parts(namespace))
    except Exception as error:  # noqa: BLE001 - whatever the cluster is up to
        parts.append(f"the rest can't be read: {error}")
    return "\n\n".join(parts)


def _parts(namespace: Namespace) -> Iterator[str]:
    pods = namespace.pods()
    yield of.picture(pods)
    yield "\n".join(_event(event) for event in namespace.events()[-60:])
    telling = sorted(pods, key=lambda pod: ("launcher" not in pod["metadata"]["name"], of.is_ready(pod)))[:_PODS_MAX]
    for pod in telling:
        for status in of.statuses(pod):
            lines = namespace.logs(pod["metadata"]["name"], status["name"]).splitlines()
            shown = lines[-_LINES_MAX:]
            yield f"--- {pod['metadata']['name']} {status['name']}, {len(shown)} of {len(lines)} lines\n" + "\n".join(
                shown
            )
    for pod in telling[:3]:
        yield f"--- {pod['metadata']['name']}\n{yaml.safe_dump(_bare(pod), sort_keys=False, width=120)}"


def _event(event: Object) -> str:
    what = event["involvedObject"]
    when = event.get("lastTimestamp") or event.get("eventTime")
    times = f" ({event['count']} times)" if event.get("count", 1) > 1 else ""
    return f"{when} {what['kind']} {what['name']}: {event['reason']}: {event['message']}{times}"


def _bare(pod: of.Pod) -> of.Pod:
    metadata = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
    return {"metadata": metadata, "spec": pod["spec"], "status": pod.get("status")}
