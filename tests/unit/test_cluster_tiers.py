"""Which cluster tests are the core, and what is written of them before a release."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from tests.cluster.core import CORE, is_core, without_test
from tests.cluster.released import DOCUMENT, Found, write

if TYPE_CHECKING:
    from pathlib import Path

REPORT = """<?xml version="1.0"?><testsuites>
<testsuite name="pytest" errors="1" failures="2" skipped="3" tests="90" time="700"></testsuite></testsuites>"""


def test_a_name_in_the_core_that_no_test_has_is_found() -> None:
    nodeids = [f"tests/cluster/{path}::{name}" for path, names in CORE.items() for name in names]
    assert without_test(nodeids) == []
    assert without_test(nodeids[1:]) == [nodeids[0].removeprefix("tests/cluster/")]
    assert without_test(name.partition("[")[0] for name in nodeids)  # the parameters count


def test_a_test_s_name_alone_means_all_its_parameters() -> None:
    assert is_core("tests/cluster/operator/test_ranks.py::test_ranks_run_in_the_workers[mpich-v1]")
    assert is_core("tests/cluster/operator/test_lost_ranks.py::test_a_job_that_lost_ranks_has_failed[v2beta1-daemon]")
    assert not is_core("tests/cluster/operator/test_lost_ranks.py::test_a_job_that_lost_ranks_has_failed[v1-worker]")
    assert is_core(
        "tests/cluster/definition/test_definition.py::TestJobs::test_a_patch_through_the_other_version_harms_nothing[x]"
    )
    assert not is_core("tests/cluster/operator/test_ranks.py::test_a_name_that_no_service_can_have_runs[v1-with.dots]")


def test_what_was_found_takes_the_place_of_what_was_found_before(tmp_path: Path) -> None:
    report, document = tmp_path / "report.xml", tmp_path / "compatibility.md"
    report.write_text(REPORT)
    document.write_text("before\n\n<!-- written by make test-release -->\nold\n<!-- end -->\n\nafter\n")
    found = Found.of(report)
    write({"1.31.4": found, "1.37.2": Found(tests=90, failed=0, skipped=0)}, datetime.date(2026, 11, 28), document)
    rows = document.read_text().splitlines()
    assert (rows[0], rows[-1]) == ("before", "after")
    assert "old" not in rows
    assert rows[5:7] == [
        "| 1.31.4 | 2026-11-28 | 84 passed, 3 failed, 3 skipped |",
        "| 1.37.2 | 2026-11-28 | 90 passed |",
    ]


def test_the_document_has_a_place_for_it(tmp_path: Path) -> None:
    copy = tmp_path / DOCUMENT.name
    copy.write_text(DOCUMENT.read_text())
    write({"1.37.2": Found(tests=90, failed=0, skipped=0)}, datetime.date(2026, 11, 28), copy)
    assert "| 1.37.2 | 2026-11-28 | 90 passed |" in copy.read_text()
