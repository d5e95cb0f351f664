"""Metadata and rule sets: checked, and merged with a subject's defaults and overrides."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.gateway.registry.error import bad_request, invalid_rule_set
from headrace.gateway.registry.state.stored_schema import Json

_RULE_LISTS: Final = ("migrationRules", "domainRules", "encodingRules")
_MODES: Final = {
    "migrationRules": frozenset({"UPGRADE", "DOWNGRADE", "UPDOWN"}),
    "domainRules": frozenset({"READ", "WRITE", "WRITEREAD"}),
    "encodingRules": frozenset({"READ", "WRITE", "WRITEREAD"}),
}
_KINDS: Final = frozenset({"TRANSFORM", "CONDITION"})
_NAME: Final = re.compile(r"[^\W\d][\w-]{0,63}")
_MOST_RULES: Final = 1000


def read_metadata(value: Any) -> Json | None:
    """Return checked metadata: tags, properties, sensitive names, each sorted.

    Raises:
        RegistryError: 400, it has another form.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise bad_request("metadata must be an object")
    found: Json = {}
    tags = value.get("tags")
    if tags:
        if not isinstance(tags, dict) or not all(map(_is_texts, tags.values())):
            raise bad_request("metadata.tags maps paths to lists of tags")
        found["tags"] = {path: sorted(set(each)) for path, each in sorted(tags.items())}
    properties = value.get("properties")
    if properties:
        if not isinstance(properties, dict) or not _is_texts(list(properties.values())):
            raise bad_request("metadata.properties maps names to texts")
        found["properties"] = dict(sorted(properties.items()))
    sensitive = value.get("sensitive")
    if sensitive:
        if not _is_texts(sensitive):
            raise bad_request("metadata.sensitive is a list of names of properties")
        found["sensitive"] = sorted(set(sensitive))
    return found


def read_rule_set(value: Any) -> Json | None:
    """Return a checked rule set.

    Raises:
        RegistryError: 42210 for a wrong rule, 400 for another form.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise bad_request("ruleSet must be an object")
    found: Json = {}
    names: set[str] = set()
    for kind in _RULE_LISTS:
        rules = value.get(kind)
        if not rules:
            continue
        if not isinstance(rules, list) or len(rules) > _MOST_RULES:
            raise bad_request(f"ruleSet.{kind} is a list of at most {_MOST_RULES} rules")
        found[kind] = [_rule(each, kind, names) for each in rules]
    if isinstance(value.get("enableAt"), str):
        found["enableAt"] = value["enableAt"]
    return found


def _rule(rule: Any, kind: str, names: set[str]) -> Json:
    if not isinstance(rule, dict):
        raise bad_request(f"ruleSet.{kind} is a list of objects")
    name = rule.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid_rule_set(
            f"Rule name {name!r}: it begins with a letter or _, and has letters, digits, _ and -"
        )
    if name in names:
        raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
    names.add(name)
    if not isinstance(rule.get("type"), str):
        raise invalid_rule_set(f"Rule '{name}' has no type")
    _check_mode(rule, name, kind)
    _check_members(rule, name)
    return {member: each for member, each in rule.items() if each is not None}


def _check_mode(rule: Json, name: str, kind: str) -> None:
    mode = rule.get("mode")
    if mode is not None and mode not in _MODES[kind]:
        raise invalid_rule_set(
            f"Rule '{name}' in {kind} can only be {', '.join(sorted(_MODES[kind]))}, not {mode}"
        )
    if rule.get("kind") is not None and rule["kind"] not in _KINDS:
        raise invalid_rule_set(f"Rule '{name}' is a TRANSFORM or a CONDITION, not {rule['kind']}")
    for member in ("onSuccess", "onFailure"):
        if "," in str(rule.get(member) or "") and mode not in (None, "WRITEREAD", "UPDOWN"):
            raise invalid_rule_set(
                f"Rule '{name}': several actions are only for WRITEREAD and UPDOWN"
            )


def _check_members(rule: Json, name: str) -> None:
    for member in ("doc", "expr", "onSuccess", "onFailure"):
        if not isinstance(rule.get(member), str | None):
            raise bad_request(f"{member} of rule '{name}' must be a text")
    if not _is_texts(rule.get("tags") or []):
        raise bad_request(f"tags of rule '{name}' must be a list of texts")
    params = rule.get("params") or {}
    if not isinstance(params, dict) or not _is_texts(list(params.values())):
        raise bad_request(f"params of rule '{name}' must map names to texts")


def merged_metadata(*layers: Mapping[str, Any] | None) -> Json | None:
    """Return metadata in which later layers win: defaults, the schema's own, overrides."""
    present = [each for each in layers if each is not None]
    if not present:
        return None
    merged: Json = {}
    for layer in present:
        for name in ("tags", "properties"):
            if layer.get(name):
                merged[name] = dict(sorted({**merged.get(name, {}), **layer[name]}.items()))
        if layer.get("sensitive"):
            merged["sensitive"] = sorted({*merged.get("sensitive", ()), *layer["sensitive"]})
    return merged


def merged_rule_set(*layers: Mapping[str, Any] | None) -> Json | None:
    """Return a rule set in which a later layer's rule replaces the one of the same name."""
    present = [each for each in layers if each is not None]
    if not present:
        return None
    merged: Json = {}
    for layer in present:
        for kind in _RULE_LISTS:
            if layer.get(kind):
                merged[kind] = _merged_rules((*merged.get(kind, ()), *layer[kind]))
        if layer.get("enableAt"):
            merged["enableAt"] = layer["enableAt"]
    return merged


def _merged_rules(rules: Iterable[Json]) -> list[Json]:
    by_name: dict[str, Json] = {}
    for each in rules:
        by_name.pop(each["name"], None)
        by_name[each["name"]] = each
    return list(by_name.values())


def changed_rule_set(latest: Mapping[str, Any] | None, body: Mapping[str, Any]) -> Json | None:
    """Return the rule set of a request to change tags: that of the latest version with rules
    merged and removed, or else its own.

    Raises:
        RegistryError: 42210, 400.
    """
    names = body.get("rulesToRemove")
    merge = read_rule_set(body.get("rulesToMerge"))
    if names is None and merge is None:
        return read_rule_set(body.get("ruleSet"))
    if not _is_texts(names or []):
        raise bad_request("rulesToRemove is a list of names")
    merged = merged_rule_set(latest, merge) or {}
    for kind in _RULE_LISTS:
        merged[kind] = [each for each in merged.get(kind, ()) if each["name"] not in (names or ())]
    return {member: each for member, each in merged.items() if each}


def has_rule_type(rule_set: Mapping[str, Any] | None, rule_type: str) -> bool:
    """Return whether a rule set has a rule of a type."""
    return any(
        rule.get("type") == rule_type
        for kind in _RULE_LISTS
        for rule in (rule_set or {}).get(kind) or ()
    )


def _is_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(each, str) for each in values)
