"""What is created for an SSH job, and what happens to its keys."""

from __future__ import annotations

from typing import Any

import plans
from job_states import CREATED, RUNNING, launcher, resource, workers

from agents.job.model import KeyType
from agents.operator.actions import Create

SSH = {"spec/transport": "ssh"}
NONE: Any = dict.fromkeys(("config_map", "service", "secret"))


@plans.DIALECTS
def test_an_ssh_job_has_keys_and_no_rights(version: str) -> None:
    found = plans.plan(resource(version, SSH), **NONE)
    assert plans.steps(found)[0] == ["write"]
    assert plans.actions(found, "create") == [
        "create ConfigMap pi-config",
        "create Secret pi-ssh",
        "create Service pi",
        f"create {plans.LAUNCHERS[version]}",
        "create Pod pi-worker-0",
        "create Pod pi-worker-1",
    ]
    (keys,) = (one for step in found.steps for one in step if isinstance(one, Create) and one.key_type)
    assert keys.key_type is KeyType.ED25519
    assert "data" not in keys.body
    assert keys.body["type"] == "kubernetes.io/ssh-auth"
    assert keys.body["metadata"]["ownerReferences"][0]["uid"] == "1-2"


@plans.DIALECTS
def test_a_secret_that_is_gone_comes_back_and_nothing_else_is_touched(version: str) -> None:
    body = resource(version, SSH, CREATED, RUNNING, replicaStatuses=plans.ALL_ACTIVE)
    found = plans.plan(body, launcher(), *workers(), secret=None)
    assert [words for step in plans.steps(found) for words in step if words != "write"] == ["create Secret pi-ssh"]
