"""Who may do what: bearer tokens are users, and a user has rules, also by RoleBindings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .resources import ROLE_BINDINGS, ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .store import Store

Object = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """One line of a Role. `verb` and `resource` may be "*"; no names means any."""

    verb: str
    resource: str
    names: frozenset[str] = frozenset()
    group: str = "*"

    @classmethod
    def parse(cls, text: str) -> Rule:
        """From "VERB RESOURCE [NAME,NAME…]", or "*". Raises ValueError."""
        words = text.split()
        if words == ["*"]:
            return cls("*", "*")
        if len(words) not in {2, 3}:
            raise ValueError(f'not a rule: {text!r}; write "VERB RESOURCE [NAME,NAME…]"')
        return cls(words[0], words[1], frozenset(words[2].split(",")) if len(words) == 3 else frozenset())

    def allows(self, verb: str, resource: str, name: str, group: str = "") -> bool:
        """RBAC's rule: a rule with names never allows a request without one."""
        if self.verb not in {"*", verb} or self.resource not in {"*", resource} or self.group not in {"*", group}:
            return False
        return not self.names or name in self.names


@dataclass(frozen=True)
class User:
    """Who a request comes from."""

    name: str
    rules: tuple[Rule, ...]
    namespace: str | None = None  # the Role's namespace; None: every one
    bound: Callable[[str], Iterable[Rule]] = field(default=lambda _namespace: (), compare=False)
    """What RoleBindings give this user in a namespace, as they are now."""

    def may(self, verb: str, resource: str, name: str, namespace: str, group: str = "") -> bool:
        """Whether a rule allows it."""
        own = self.rules if self.namespace in {None, namespace} else ()
        return any(rule.allows(verb, resource, name, group) for rule in (*own, *self.bound(namespace)))


def user(name: str, rules: Iterable[str], namespace: str | None = None) -> User:
    """A user with these rules."""
    return User(name, tuple(Rule.parse(rule) for rule in rules), namespace)


class Access:
    """The tokens that are known."""

    def __init__(self) -> None:
        self._tokens: dict[str, User] = {}

    def add_token(self, token: str, user: User) -> None:
        """Accept a bearer token."""
        self._tokens[token] = user

    def revoke_token(self, token: str) -> None:
        """From now on 401."""
        self._tokens.pop(token, None)

    def identify(self, authorization: str) -> User | None:
        """The user of a request, None for 401."""
        scheme, _, token = authorization.partition(" ")
        return self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None


def bound(store: Store, namespace: str, account: str) -> Callable[[str], list[Rule]]:
    """A function that returns the rules of an account's Roles in a namespace, as they are now."""

    def is_subject(subject: Object, binding_namespace: str) -> bool:
        where = subject.get("namespace", binding_namespace)
        return (subject.get("kind"), where, subject.get("name")) == ("ServiceAccount", namespace, account)

    def rules(asked: str) -> list[Rule]:
        found: list[Rule] = []
        for binding in store.all(ROLE_BINDINGS.key, asked):
            if any(is_subject(subject, asked) for subject in binding.get("subjects") or ()):
                role = store.get(ROLES.key, asked, binding.get("roleRef", {}).get("name", ""))
                found += rules_of(role) if role is not None else ()
        return found

    return rules


def rules_of(role: Object) -> Iterator[Rule]:
    """The rules of a Role."""
    for rule in role.get("rules") or ():
        names = frozenset(rule.get("resourceNames") or ())
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    yield Rule(verb, resource, names, group)
