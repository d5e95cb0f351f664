"""Configurations and modes: their values, and which one holds for a subject."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from headrace.gateway.registry.error import bad_request, invalid_level, invalid_mode
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.stored_schema import Json
from headrace.gateway.registry.state.subject_name import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    SubjectName,
)
from headrace.schema.compatibility import CompatibilityLevel, CompatibilityPolicy

T = TypeVar("T")


class Mode(StrEnum):
    """Whether schemas may be registered."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """Read only whatever the subject's own mode is."""

    IMPORT = "IMPORT"
    """Schemas come with the ids they have elsewhere."""

    FORWARD = "FORWARD"
    """Another registry writes; here it is read only."""


DEFAULT_CONFIG: Final[Mapping[str, Any]] = {"compatibilityLevel": "BACKWARD"}

_TEXTS: Final = ("alias", "compatibilityGroup")
_FLAGS: Final = (
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "aliasForDeks",
)
_OBJECTS: Final = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")


def read_config(body: Mapping[str, Any]) -> Json:
    """Return the members of a configuration in a request, those set to null included.

    Raises:
        RegistryError: 42203 for a level that does not exist, 400 for another wrong value.
    """
    found: Json = {}
    for name in ("compatibility", "compatibilityLevel"):
        if body.get(name) is not None:
            found["compatibilityLevel"] = _level(body[name])
        elif name in body:  # clients send the one that they do not use as null
            found.setdefault("compatibilityLevel", None)
    if "compatibilityPolicy" in body:
        found["compatibilityPolicy"] = _policy(body["compatibilityPolicy"])
    for names, kind in ((_TEXTS, str), (_FLAGS, bool), (_OBJECTS, dict)):
        for name in names:
            if name in body:
                if body[name] is not None and not isinstance(body[name], kind):
                    raise bad_request(f"{name} must be a {kind.__name__}")
                found[name] = body[name]
    return found


def merged_config(old: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    """Return a configuration after a change: members set to null are removed, others stay."""
    merged = {**old, **change}
    return {name: value for name, value in merged.items() if value is not None}


def _level(text: Any) -> str:
    try:
        return CompatibilityLevel(str(text).upper()).value
    except ValueError:
        raise invalid_level(text) from None


def _policy(text: Any) -> str | None:
    try:
        return None if text is None else CompatibilityPolicy(str(text).upper()).value
    except ValueError:
        raise bad_request(f"compatibilityPolicy {text!r}: write STRICT or LENIENT") from None


def read_mode(text: Any) -> Mode:
    """Return the mode of a request.

    Raises:
        RegistryError: 42204.
    """
    try:
        return Mode(str(text).upper())
    except ValueError:
        raise invalid_mode(text) from None


def _in_scope(table: Mapping[str | None, T], name: SubjectName) -> T | None:
    """Return the entry of a subject, else of its context, else of all contexts."""
    keys = [name.text]
    if name.context == DEFAULT_CONTEXT:
        found = table.get(name.text) if name.subject else None
        return found if found is not None else table.get(None, _global(table))
    keys.append(SubjectName(name.context, "").text)
    for key in keys:
        if key in table:
            return table[key]
    return _global(table)


def _global(table: Mapping[str | None, T]) -> T | None:
    return table.get(SubjectName(GLOBAL_CONTEXT, "").text)


def config_in_scope(state: RegistryState, subject: str) -> Json:
    """Return the configuration that holds for a subject: its own, over that of its context, over
    the defaults."""
    name = SubjectName.of(subject)
    wider = _in_scope(state.configs, SubjectName(name.context, "")) or {}
    own = state.configs.get(name.config_key, {}) if name.subject else {}
    return {**DEFAULT_CONFIG, **wider, **own}


def level_in_scope(state: RegistryState, subject: str) -> CompatibilityLevel:
    try:
        return CompatibilityLevel(config_in_scope(state, subject)["compatibilityLevel"])
    except ValueError:  # another registry's level
        return CompatibilityLevel.BACKWARD


def policy_in_scope(state: RegistryState, subject: str) -> CompatibilityPolicy:
    try:
        return CompatibilityPolicy(config_in_scope(state, subject)["compatibilityPolicy"])
    except (KeyError, ValueError):
        return CompatibilityPolicy.STRICT


def mode_in_scope(state: RegistryState, subject: str) -> Mode:
    """Return the mode that holds for a subject; READONLY_OVERRIDE above it beats its own."""
    name = SubjectName.of(subject)
    wider = _in_scope(state.modes, SubjectName(name.context, ""))
    if wider == Mode.READONLY_OVERRIDE:
        return Mode.READONLY_OVERRIDE
    text = _in_scope(state.modes, name) or Mode.READWRITE
    try:
        return Mode(text)
    except ValueError:  # a mode that only another registry knows: nothing is written under it
        return Mode.READONLY


def resolve_alias(state: RegistryState, subject: str) -> str:
    """Return the subject that a name stands for: its configuration may name another one."""
    alias = state.configs.get(SubjectName.of(subject).config_key, {}).get("alias")
    if not isinstance(alias, str) or not alias or not SubjectName.of(subject).subject:
        return subject
    return SubjectName.of(subject).sibling(alias).text
