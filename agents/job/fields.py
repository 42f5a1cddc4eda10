"""Reads a JSON object field by field, and settings that are a field or an annotation.

A value of the wrong type becomes a Problem and counts as absent. null and the empty string are absent too, as they are
for kubeflow's operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from agents.job.json_object import Object
from agents.job.model import WORKER, Problem, annotation
from agents.job.unknown import ignored_annotations, misspelt_fields

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Asked(NamedTuple):
    """The keys of an object that have been asked for: what nothing asks for is ignored.

    No Fields: all of those have the table that this is in, and a job in a reference cycle would be held in memory long
    after its plan.
    """

    value: Object
    is_map: bool
    keys: set[str]


class Fields:
    """An object at a path. All that are reached from one share its list of problems, and `asked`.

    The keys of a map are its user's, and stand in brackets: `metadata.annotations[mpi-agents/rbac]`. `asked`: by
    the paths of objects. Those in lists don't count.
    """

    def __init__(
        self,
        value: object,
        path: str,
        problems: list[Problem],
        asked: dict[str, Asked] | None = None,
        *,
        is_map: bool = False,
        is_reported: bool = False,
    ) -> None:
        self.path, self.problems, self.is_map = path, problems, is_map
        self.asked = {} if asked is None else asked
        self.is_given = value is not None
        self.is_object = isinstance(value, Mapping)
        # Reported already: nothing can be here.
        self._is_reported = is_reported or (self.is_given and not self.is_object)
        self.value: Object = value if isinstance(value, Mapping) else {}
        if self._is_reported and not is_reported:
            problems.append(Problem(path, f"must be an object, not {kind(value)}"))

    def add(self, message: str, key: str | None = None) -> None:
        """Record what is wrong here, or at one of the keys."""
        if not self._is_reported:
            self.problems.append(Problem(self.path if key is None else self.at(key), message))

    def at(self, key: str) -> str:
        """Return the path of a key."""
        if self.is_map:
            return f"{self.path}[{key}]"
        return f"{self.path}.{key}" if self.path else key

    @property
    def names(self) -> list[str]:
        """The keys that there are, as null is none."""
        return _names(self.value)

    def child(self, key: str, *, is_map: bool = False) -> Fields:
        """Return the object at a key, empty if there is none."""
        value, path = self._get(key), self.at(key)
        return Fields(value, path, self.problems, self.asked, is_map=is_map, is_reported=self._is_reported)

    def instead(self, value: Object) -> Fields:
        """Return another object in this one's place."""
        more = {"is_map": self.is_map, "is_reported": self._is_reported}
        return Fields(value, self.path, self.problems, self.asked, **more)

    def text(self, key: str) -> str:
        """Return the text at a key, "" if there is none."""
        return self._typed(key, str, "text") or ""

    def needed(self, key: str) -> str:
        """Return the text at a key that must have one."""
        text = self.text(key)
        if self.value.get(key) in (None, ""):
            self.add("is required", key)
        return text

    def flag(self, key: str) -> bool | None:
        """Return the boolean at a key."""
        return self._typed(key, bool, "true or false")

    def number(self, key: str, *, least: int = -INT32_MAX, most: int = INT32_MAX) -> int | None:
        """Return the whole number at a key."""
        value = self._get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has no difference between 1 and 1.0
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(f"must be a whole number, not {kind(value)}", key)
        elif value < least:
            self.add(f"must be {least} or more, not {value}", key)
        elif value > most:
            self.add(f"must be at most {most}", key)
        else:
            return value
        return None

    def quantities(self) -> dict[str, str]:
        """Return all that is here: amounts of resources, which may be written as numbers."""
        return {key: self.quantity(key) for key, value in self.value.items() if value is not None}

    def choice(self, key: str, choices: Iterable[E], *, otherwise: E | None = None) -> E | None:
        """Return the one of these that a key names. `otherwise`: what any other name means, if it is no fault."""
        text = self.text(key)
        known = {str(one): one for one in choices if one}
        if text and text not in known and otherwise is None:
            self.add(f'must be {one_of(known)}, not "{text[:63]}"', key)
        return known.get(text, otherwise) if text else None

    def objects(self, key: str) -> Iterator[Fields]:
        """Give the objects of the list at a key."""
        for index, one in enumerate(self._list(key)):
            found = Fields(one, f"{self.at(key)}[{index}]", self.problems)
            if found.is_object:
                yield found
            elif one is None:
                found.add("must be an object, not null")

    def texts(self, key: str) -> list[str]:
        """Return the texts of the list at a key."""
        found = self._list(key)
        for index, one in enumerate(found):
            if not isinstance(one, str):
                self.add(f"must be text, not {kind(one)}", f"{key}[{index}]")
        return [one for one in found if isinstance(one, str)]

    def quantity(self, key: str) -> str:
        """Return the amount at a key, which may be written as a number; "" if there is none."""
        value = self._get(key)
        if value is None:
            return ""
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else self.text(key)
        if not _QUANTITY.fullmatch(text) and (text or not value):
            self.add("must be a quantity, as 500m or 2Gi", key)
        return text

    def _list(self, key: str) -> list[Any]:
        return self._typed(key, list, "a list") or []

    def ask(self, key: str) -> None:
        """Note that a key has a meaning here."""
        self.asked.setdefault(self.path, Asked(self.value, self.is_map, set())).keys.add(key)

    def _get(self, key: str) -> Any:
        self.ask(key)
        return self.value.get(key)

    def _typed(self, key: str, wanted: type[T], expected: str) -> T | None:
        value = self._get(key)
        if value is None or isinstance(value, wanted):
            return value
        self.add(f"must be {expected}, not {kind(value)}", key)
        return None


class Settings:
    """The settings of one job in one object of its spec. Each may be an annotation instead, which wins.

    Annotations exist because another CRD, or a client that knows only kubeflow's fields, drops our fields. `names`:
    what annotations are called instead of a field's own name, as `sshPort` for `port` in `spec.ssh`.
    """

    def __init__(self, spec: Fields, annotations: Fields, names: Mapping[str, str] | None = None) -> None:
        self.fields, self._annotations, self._names = spec, annotations, names or {}

    def child(self, key: str, names: Mapping[str, str] | None = None) -> Settings:
        """Return the settings in the object at a key of the spec."""
        return Settings(self.fields.child(key), self._annotations, names)

    def ignored(self) -> list[Problem]:
        """Return the annotations of ours that nothing has asked for, and fields of the spec that look misspelt.

        Those of pod templates are the API server's.
        """
        found: list[Problem] = []
        for path, asked in self.fields.asked.items():
            if path == self._annotations.path:
                found += ignored_annotations(path, _names(asked.value), asked.keys)
            elif path.startswith(self.fields.path) and not asked.is_map and ".template" not in path:
                found += misspelt_fields(path, _names(asked.value), asked.keys)
        return found

    @property
    def annotations(self) -> dict[str, str]:
        """The job's own annotations."""
        return {key: text for key, text in self._annotations.value.items() if isinstance(text, str)}

    def is_annotated(self, key: str) -> bool:
        """Return whether the annotation gives it."""
        name = annotation(self._names.get(key, key))
        self._annotations.ask(name)
        return bool(self._annotations.value.get(name))

    def path(self, key: str) -> str:
        """Return where a setting is given."""
        fields, name = self._given(key)
        return fields.at(name)

    def add(self, message: str, key: str) -> None:
        """Record what is wrong with a setting, where it is given."""
        fields, name = self._given(key)
        fields.problems.append(Problem(fields.at(name), message))

    def text(self, key: str) -> str:
        """Return a text, "" if neither gives one."""
        fields, name = self._given(key)
        return fields.text(name)

    def choice(self, key: str, choices: Iterable[E], *, otherwise: E | None = None) -> E | None:
        """Return one of these. `otherwise`: what any other name means in the field; an annotation must be right."""
        fields, name = self._given(key)
        return fields.choice(name, choices, otherwise=otherwise if fields is self.fields else None)

    def choices(self, key: str, choices: Iterable[E]) -> tuple[E, ...] | None:
        """Return a list of these, None if neither gives one. An annotation has its words parted by commas."""
        fields, name = self._given(key)
        if fields is not self.fields:
            given = fields.text(name).replace(",", " ").split()
        elif fields.value.get(name) is None:
            return None
        else:
            given = fields.texts(name)
        known = {str(one): one for one in choices}
        for text in (text for text in given if text not in known):
            fields.add(f'must be {one_of(known)}, not "{text[:63]}"', name)
        return tuple(dict.fromkeys(known[text] for text in given if text in known))

    def flag(self, key: str) -> bool | None:
        """Return a boolean."""
        fields, name = self._given(key)
        if fields is self.fields:
            return fields.flag(name)
        text = fields.text(name)
        if text not in {"", "true", "false"}:
            fields.add(f'must be "true" or "false", not "{text[:63]}"', name)
        return text == "true"

    def number(self, key: str, *, least: int, most: int) -> int | None:
        """Return a whole number."""
        fields, name = self._given(key)
        if fields is self.fields:
            return fields.number(name, least=least, most=most)
        text = fields.text(name)
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
            return int(text)
        if text:
            fields.add(f'must be a whole number, {least} to {most}, not "{text[:63]}"', name)
        return None

    def _given(self, key: str) -> tuple[Fields, str]:
        """Return the object that gives a setting, and its name there."""
        self.fields.ask(key)
        name = annotation(self._names.get(key, key))
        return (self._annotations, name) if self.is_annotated(key) else (self.fields, key)


def _names(value: Object) -> list[str]:
    return [str(key) for key, one in value.items() if one is not None]


def one_of(names: Iterable[str]) -> str:
    """Return names for a sentence: A, B or C."""
    *some, last = names
    return f"{', '.join(some)} or {last}" if some else last


def kind(value: object) -> str:
    """Return what a JSON value is, for a sentence."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return "text"
    if value is None:
        return "null"
    return "an object" if isinstance(value, Mapping) else "a list"


LABEL_SIZE = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def read_name(metadata: Fields, workers: int, *, is_host: bool, suffix: str = WORKER) -> str:
    """Return a job's name. `is_host`: its workers' names are host names too, with this suffix and their index.

    Digits first and dots are no fault: what must be a DNS label is named otherwise.
    """
    name = metadata.needed("name")
    longest = f"{name}-{suffix}-{max(workers - 1, 0)}"
    if name and not _SUBDOMAIN.fullmatch(name):
        metadata.add("must be lower case letters, digits, '-' and '.', with a letter or digit at each end", "name")
    elif len(name) > LABEL_SIZE:
        metadata.add(f"must be at most {LABEL_SIZE} long: it is a label of the pods", "name")
    elif is_host and len(longest) > LABEL_SIZE:
        excess = len(longest) - LABEL_SIZE
        metadata.add(f'is {excess} too long: "{longest}" is a host name, of at most {LABEL_SIZE}', "name")
    return name


def is_label(name: str) -> bool:
    """Return whether this is a label of RFC 1123, as a container's name must be and a host's."""
    return len(name) <= LABEL_SIZE and _LABEL.fullmatch(name) is not None
