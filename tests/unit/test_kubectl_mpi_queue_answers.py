"""What Kueue's answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from agents.client.queue import positions_of, reason_of


def condition(kind: str, status: str, message: object) -> dict[str, Any]:
    return {"type": kind, "status": status, "message": message}


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], ""),
        ("none", ""),
        ([condition("QuotaReserved", "False", "LocalQueue gpu doesn't exist")], "LocalQueue gpu doesn't exist"),
        (
            [condition("QuotaReserved", "True", "Quota reserved"), condition("Admitted", "False", "waits for a check")],
            "waits for a check",
        ),
        ([condition("QuotaReserved", "True", "Quota reserved"), condition("Admitted", "True", "is admitted")], ""),
        ([condition("QuotaReserved", "False", None)], ""),
        ([condition("QuotaReserved", "False", "two\nlines\x1b[2J")], "two lines?[2J"),
    ],
)
def test_why_a_workload_is_not_admitted(conditions: object, reason: str) -> None:
    assert reason_of({"status": {"conditions": conditions}}) == reason


def test_positions_are_those_of_the_jobs_that_own_the_workloads() -> None:
    def pending(uid: str, **place: object) -> dict[str, Any]:
        return {"metadata": {"ownerReferences": [{"uid": uid}]}, **place}

    given = [pending("first"), pending("next", positionInLocalQueue=1), pending("odd", positionInLocalQueue="2"), {}]
    assert positions_of(given) == {"first": 1, "next": 2}
