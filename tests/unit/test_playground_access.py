"""RBAC as far as the stand-in has it."""

from __future__ import annotations

import pytest

from agents.playground import access


@pytest.mark.parametrize(
    ("rules", "request_", "allowed"),
    [
        (["create pods/exec"], ("create", "pods/exec", "w-0"), True),
        (["create pods/exec"], ("get", "pods/exec", "w-0"), False),
        (["get pods"], ("get", "pods/exec", "w-0"), False),
        (["get pods/exec w-0,w-1"], ("get", "pods/exec", "w-1"), True),
        (["get pods/exec w-0,w-1"], ("get", "pods/exec", "w-2"), False),
        (["list pods w-0"], ("list", "pods", ""), False),
        (["* pods"], ("watch", "pods", ""), True),
        (["get *"], ("get", "pods/exec", "x"), True),
        (["*"], ("create", "anything", "x"), True),
        ([], ("get", "pods", "x"), False),
    ],
)
def test_rules(rules: list[str], request_: tuple[str, str, str], allowed: bool) -> None:
    user = access.user("someone", rules)
    assert user.may(*request_, "default") is allowed


def test_a_role_is_of_one_namespace() -> None:
    user = access.user("someone", ["get pods"], "jobs")
    assert user.may("get", "pods", "x", "jobs")
    assert not user.may("get", "pods", "x", "other")


def test_a_rule_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="not a rule"):
        access.user("someone", ["get"])


def test_tokens() -> None:
    known = access.Access()
    user = access.user("a", ["*"])
    known.add_token("t0ken", user)
    assert known.identify("Bearer t0ken") is user
    assert known.identify("bearer t0ken") is user
    assert known.identify("Bearer other") is None
    assert known.identify("") is None
    assert known.identify("Basic t0ken") is None
    known.revoke_token("t0ken")
    assert known.identify("Bearer t0ken") is None
