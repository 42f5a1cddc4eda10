"""A launcher that is tried again, in place or as a new pod, finds nothing of its earlier try in the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.operator.mpijob import MpiJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.operator.submitted import Submitted

    Submit = Callable[[MpiJob], Submitted]

# Tells how many daemons of an earlier try are there; the first leaves one, and fails. Brackets keep the text from
# finding itself.
STORY = """
agent=/etc/mpi/kubexec.sh host=$(sed -n '1s/[ :].*//p' /etc/mpi/hostfile)
count='cat /proc/[0-9]*/cmdline | tr "\\0" " " | grep -c "sleep 100[0]"'
if $agent $host 'mkdir /tmp/first 2>/dev/null'
then
    $agent $host 'setsid sleep 1000 >/dev/null 2>&1 </dev/null &'
    $agent $host "$count >/tmp/first/left"
    exit 1
fi
echo "left $($agent $host 'cat /tmp/first/left') found $($agent $host "$count")"
"""


@pytest.mark.parametrize(("version", "policy"), [("v1", "OnFailure"), ("v2beta1", "OnFailure"), ("v2beta1", "Never")])
def test_a_retry_begins_with_a_clean_worker_side(submit: Submit, version: str, policy: str) -> None:
    job = MpiJob(version).command("/bin/bash", "-c", STORY)
    job.spec["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = policy
    job.policy["backoffLimit"] = 2
    running = submit(job)
    assert running.verdict() == "Succeeded", running.output
    assert running.output.split() == ["left", "1", "found", "0"]
