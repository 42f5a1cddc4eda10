"""What RoleBindings give a ServiceAccount: its Roles' rules, as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .access import Rule
from .resources import ROLE_BINDINGS, ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .store import Store

Object = dict[str, Any]


def bound(store: Store, namespace: str, account: str) -> Callable[[str], list[Rule]]:
    """A function that returns the account's rules in a namespace."""

    def is_subject(subject: Object, binding_namespace: str) -> bool:
        where = subject.get("namespace", binding_namespace)
        return (subject.get("kind"), where, subject.get("name")) == ("ServiceAccount", namespace, account)

    def rules(asked: str) -> list[Rule]:
        found: list[Rule] = []
        for binding in store.all(ROLE_BINDINGS.key, asked):
            if any(is_subject(subject, asked) for subject in binding.get("subjects") or ()):
                role = store.get(ROLES.key, asked, binding.get("roleRef", {}).get("name", ""))
                found += _rules(role) if role is not None else ()
        return found

    return rules


def _rules(role: Object) -> Iterator[Rule]:
    for rule in role.get("rules") or ():
        names = frozenset(rule.get("resourceNames") or ())
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    yield Rule(verb, resource, names, group)
