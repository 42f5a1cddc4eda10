"""Whatever stands in a job, its pods and events: `list`, `status` and `why` show printable lines, and never fail."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from client_jobs import NOW, attempted, event, facts, job, pod, workers
from hypothesis import given
from hypothesis import strategies as st
from test_job_fuzz import SCALARS, places

from agents.client.diagnosis import diagnose, failed_container, running_launcher
from agents.client.facts import Facts
from agents.client.model import as_json
from agents.client.objects import owned
from agents.client.silence import last_output
from agents.client.summaries import events_of, status_of, summary_of
from agents.kube.decode import decoded
from agents.kubectl_mpi import tables

Object = dict[str, Any]

TRUE = ("Created", "Running", "Restarting", "Failed")
SITUATIONS = [
    (attempted("pi-launcher-x: container mpi exited with 3: no licence"), workers("ready", "ready"), []),
    *(
        (
            job(version, *TRUE[:count]),
            [*workers("ready", state), pod("pi-launcher", launcher)],
            [event("exceeded quota: x")],
        )
        for version in ("v1", "v2beta1", "t9k", "t9k-3")
        for count in (0, 1, 2, 3, 4)
        for state, launcher in (
            ("unschedulable", "pulling"),
            ("crash-loop", "crash-loop"),
            ("evicted", "failed"),
            ("ready", "ready"),
        )
    ),
]
WRONG: st.SearchStrategy[Any] = SCALARS | st.sampled_from(
    [[], {}, [None], {"a": None}, [[]], [{}], "True", "2026-03-01T12:00:00Z", "a\nb\x1b[2J"]
)


@given(st.sampled_from(SITUATIONS), st.data())
def test_any_value_anywhere(situation: tuple[Object, list[Object], list[Object]], data: st.DataObject) -> None:
    resource, pods, events = copy.deepcopy(situation)
    whole: Object = {"job": resource, "pods": pods, "events": events}
    for _ in range(data.draw(st.integers(1, 3))):
        # What an object is called and where it is, the API server sees to.
        paths = [path for path in places(whole) if path[-1] not in {"name", "namespace", "uid"} and len(path) > 2]
        *parents, last = data.draw(st.sampled_from(paths))
        one: Any = whole
        for key in parents:
            one = one[key]
        one[last] = copy.deepcopy(data.draw(WRONG))
    found = Facts(whole["job"], [*owned(whole["job"], whole["pods"])], NOW, whole["events"])
    failed_container(found)
    if (launcher := running_launcher(found)) is not None:
        found = replace(found, silent_since=last_output((), launcher)[1])
    why, status, shown = diagnose(found), status_of(found), events_of(found.events)
    json.dumps([as_json(why), as_json(status), as_json(shown)])
    assert why.state is summary_of(found).state
    text = [str(why), why.reason, *why.lines]
    text += tables.jobs([status.summary], NOW, has_namespace=True, is_wide=True)
    text += tables.screen(status, NOW) + tables.events(shown, NOW)
    assert [line for line in text if not line.isprintable()] == []


@pytest.mark.parametrize("depth", [300, 5000])
def test_a_job_that_is_nested_deeply_hides_no_other(depth: int) -> None:
    """An API server takes 10,000 levels, and anyone may create such a job."""
    plain = json.dumps(job("v1", "Running"))
    deep = plain.replace('"spec": {', f'"spec": {{"deep": {"[" * depth}{"]" * depth}, ', 1)
    found = decoded(f'{{"items": [{deep}, {plain}]}}'.encode())
    assert [summary_of(facts(one)).state for one in found["items"]] == ["Running", "Running"]
    assert decoded(b"[" * depth) is None


def test_the_situations_are_read() -> None:
    assert len({diagnose(facts(resource, *pods)).reason for resource, pods, _ in SITUATIONS}) >= 4
