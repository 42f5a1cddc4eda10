"""What `make test-release` found, by release of Kubernetes: the table between two markers of docs/compatibility.md."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.benchmarks import report

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"
_MARKERS = "<!-- written by make test-release -->", "<!-- end -->"


@dataclass(frozen=True)
class Found:
    """The counts of one run of tests."""

    tests: int
    failed: int
    skipped: int

    @classmethod
    def of(cls, report: Path) -> Found:
        """Read pytest's JUnit report. Raises OSError where there is none: the run ended before its first test."""
        suite = ElementTree.parse(report).getroot().find("testsuite")
        assert suite is not None
        tests, failures, errors, skipped = (
            int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")
        )
        return cls(tests, failures + errors, skipped)

    def __str__(self) -> str:
        counts = {"passed": self.tests - self.failed - self.skipped, "failed": self.failed, "skipped": self.skipped}
        return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def write(found: dict[str, Found], day: datetime.date, document: Path = DOCUMENT) -> None:
    """Put the counts by release of Kubernetes in place of those in the document."""
    rows = [f"| {version} | {day.isoformat()} | {counts} |" for version, counts in found.items()]
    table = "\n".join(["| release | tested on | result |", "|---|---|---|", *rows])
    report.write(str(document), table, _MARKERS)
