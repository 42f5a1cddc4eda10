"""Whether the cluster's nodes and the namespace's quotas can hold a job's pods. Pure.

What other pods use now is not counted: a job that fits into the empty cluster waits for its turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from agents.client.doctor.check import Check, Group, fail, ok
from agents.common.quantity import asked_for, format_quantity, parse_quantity
from agents.job.conditions import true_condition
from agents.job.json_object import Object, mappings, part
from agents.job.model import LAUNCHER, WORKER, Job, Role

_PODS = "pods"
_SHOWN = 4  # obstacles
_REMEDY = "Ask for less, correct nodeSelector, affinity or tolerations, or add nodes (an autoscaler may do so)."
_CLASSES = frozenset({"cpu", "memory", "ephemeral-storage"})  # what a quota also calls by its bare name


def nodes(job: Job, found: Sequence[Object]) -> list[Check]:
    """Check for each role that some node can take a pod of it, and that all together can take all."""
    roles = (("launcher", job.launcher), ("workers", job.worker))
    return [_role(name, role, found) for name, role in roles if role.template and role.replicas]


def _role(name: str, role: Role, found: Sequence[Object]) -> Check:
    check, asked = f"nodes for {name}", {**asked_for(role.template), _PODS: Fraction(1)}
    obstacles: Counter[str] = Counter()
    most = fitting = 0
    for node in found:
        if obstacle := _obstacle(node, part(role.template, "spec"), asked):
            obstacles[obstacle] += 1
        else:
            fitting += 1
            there = _allocatable(node)
            most += min(int(there[name] // value) for name, value in asked.items() if value > 0)
    why = ", ".join(f"{count} {obstacle}" for obstacle, count in obstacles.most_common(_SHOWN))
    amounts = [f"{name} {_shown(value)}" for name, value in asked.items() if name != _PODS and value]
    needs = f"one pod needs {', '.join(amounts) or 'no requested resources'}"
    if not fitting:
        what = f"none of {len(found)} nodes can take one ({why or 'there are none'}); {needs}"
        return fail(Group.CAPACITY, check, what, _REMEDY)
    what = f"{fitting} of {len(found)} nodes can take one; together {most}, if they are empty; {needs}"
    if most < role.replicas:
        return fail(Group.CAPACITY, check, f"{what}; {role.replicas} are wanted ({why or 'all nodes full'})", _REMEDY)
    return ok(Group.CAPACITY, check, f"{what}; {role.replicas} wanted")


def _obstacle(node: Object, spec: Object, asked: Mapping[str, Fraction]) -> str:
    """Return why a node can't take a pod, as the scheduler says it; "" if it can."""
    metadata, labels = part(node, "metadata"), part(node, "metadata", "labels")
    if spec.get("nodeName") not in (None, "", metadata.get("name")):
        return "didn't match nodeName"
    if part(node, "spec").get("unschedulable"):
        return "cordoned"
    if true_condition(mappings(part(node, "status").get("conditions")), "Ready") is None:
        return "not ready"
    for taint in mappings(part(node, "spec").get("taints")):
        if taint.get("effect") != "PreferNoSchedule" and not _is_tolerated(taint, spec):
            return f"had untolerated taint {taint.get('key')}" + (f"={taint['value']}" if taint.get("value") else "")
    if any(labels.get(key) != value for key, value in part(spec, "nodeSelector").items()) or not _matches(spec, node):
        return "didn't match node selector or affinity"
    there = _allocatable(node)
    lacking = [name for name, value in asked.items() if value > there.get(name, 0)]
    return f"with too little {' and '.join(lacking)}" if lacking else ""


def _is_tolerated(taint: Object, spec: Object) -> bool:
    for one in mappings(spec.get("tolerations")):
        same_effect = one.get("effect") in (None, "", taint.get("effect"))
        if one.get("operator") == "Exists":
            matches = one.get("key") in (None, "", taint.get("key"))
        else:
            matches = one.get("key") == taint.get("key") and (one.get("value") or "") == (taint.get("value") or "")
        if same_effect and matches:
            return True
    return False


def _matches(spec: Object, node: Object) -> bool:
    """Whether a node fits the required node affinity: one of the terms, with all its expressions."""
    required = part(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = mappings(required.get("nodeSelectorTerms"))
    labels, name = part(node, "metadata", "labels"), {"metadata.name": part(node, "metadata").get("name")}
    return not required or any(
        all(_holds(one, labels) for one in mappings(term.get("matchExpressions")))
        and all(_holds(one, name) for one in mappings(term.get("matchFields")))
        for term in terms
    )


def _holds(expression: Object, labels: Object) -> bool:
    value, values = labels.get(str(expression.get("key"))), expression.get("values")
    values = values if isinstance(values, list) else []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:  # Gt and Lt
            try:
                number, limit = int(str(value)), int(str(values[0]))
            except (ValueError, IndexError):
                return False
            return number > limit if operator == "Gt" else number < limit


def _allocatable(node: Object) -> dict[str, Fraction]:
    found = {}
    for name, text in part(node, "status", "allocatable").items():
        try:
            found[name] = parse_quantity(text)
        except ValueError:
            continue
    return found


def _shown(value: Fraction) -> str:
    """Return a quantity; memory, which nothing else is as large as, in the units that people write it in."""
    for scale, unit in ((1 << 30, "Gi"), (1 << 20, "Mi")):
        if value and value % scale == 0:
            return f"{value // scale}{unit}"
    return format_quantity(value)


def quotas(job: Job, found: Sequence[Object], missing: Mapping[str, int]) -> list[Check]:
    """Check that each quota of the namespace leaves enough; `missing`: how many pods of each role will be created.

    Quotas for some pods only (scopes) are left out.
    """
    needed = _needed(job, missing)
    checks = []
    for quota in found:
        spec, name = part(quota, "spec"), f"quota {part(quota, 'metadata').get('name')}"
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        hard, used = part(quota, "status", "hard") or part(spec, "hard"), part(quota, "status", "used")
        lacking = []
        for resource, limit in hard.items():
            left = parse_quantity(limit) - parse_quantity(used.get(resource, 0))
            if needed.get(resource, 0) > left:
                lacking.append(f"{resource}: {_shown(left)} left, {_shown(needed[resource])} needed")
        if lacking:
            remedy = "Ask for less, wait until other pods end, or have the quota raised."
            checks.append(fail(Group.CAPACITY, name, "; ".join(lacking), remedy))
        else:
            checks.append(ok(Group.CAPACITY, name, "leaves enough for the job's pods"))
    return checks


def _needed(job: Job, missing: Mapping[str, int]) -> dict[str, Fraction]:
    """Return what the missing pods count in quotas, by the quotas' names."""
    needed: defaultdict[str, Fraction] = defaultdict(Fraction)
    for role, count in ((job.launcher, missing[LAUNCHER]), (job.worker, missing[WORKER])):
        needed["pods"] += count
        needed["count/pods"] += count
        for name, value in asked_for(role.template).items():
            needed[f"requests.{name}"] += value * count
            if name in _CLASSES:
                needed[name] += value * count
        for name, value in asked_for(role.template, ("limits",)).items():
            needed[f"limits.{name}"] += value * count
    return needed
