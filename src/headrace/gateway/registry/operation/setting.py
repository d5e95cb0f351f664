"""Configurations and modes: read, set, removed."""

from typing import Any

from headrace.gateway.registry.access.subject_users import can_write
from headrace.gateway.registry.error import (
    RegistryError,
    invalid_subject,
    no_subject_config,
    no_subject_mode,
    not_permitted,
    subject_not_found,
)
from headrace.gateway.registry.operation.candidate import check_context
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.record import (
    Record,
    clear_subject_record,
    config_record,
    mode_record,
)
from headrace.gateway.registry.state.registry_state import RegistryState, covers
from headrace.gateway.registry.state.rule_set import read_metadata, read_rule_set
from headrace.gateway.registry.state.setting import (
    DEFAULT_CONFIG,
    Mode,
    config_in_scope,
    merged_config,
    mode_in_scope,
    read_config,
    read_mode,
)
from headrace.gateway.registry.state.stored_schema import Json
from headrace.gateway.registry.state.subject_name import ANY_CONTEXT, SubjectName, is_context_name
from headrace.gateway.registry.view import Plan, RegistryView


def _key(request: Request) -> str | None:
    """Return the key of a configuration or mode; None for that of the default context.

    Raises:
        RegistryError: 42208.
    """
    name = SubjectName.of(request.subject)
    if not is_context_name(name.context) or (name.subject and not name.is_valid):
        raise invalid_subject(request.subject)
    return name.config_key


def get_config(view: RegistryView, request: Request) -> Any:
    key = _key(request)

    def gather(state: RegistryState) -> Json:
        if key is None or request.flag("defaultToGlobal"):
            return config_in_scope(state, request.subject)
        if key not in state.configs:
            raise no_subject_config(key)
        return state.configs[key]

    return view.read(gather)


def set_config(view: RegistryView, request: Request) -> Plan:
    key, change = _key(request), read_config(request.members)
    _check_alias(request, change.get("alias"))
    for name in ("defaultMetadata", "overrideMetadata"):
        if change.get(name) is not None:
            change[name] = read_metadata(change[name])
    for name in ("defaultRuleSet", "overrideRuleSet"):
        if change.get(name) is not None:
            change[name] = read_rule_set(change[name])

    def plan(state: RegistryState) -> Plan:
        # A subject's configuration may be without a level; the next wider one then holds.
        config = merged_config(state.configs.get(key, {}), change)
        if key is None:
            config = {**DEFAULT_CONFIG, **config}
        answer = {
            "compatibility" if name == "compatibilityLevel" else name: value
            for name, value in change.items()
            if value is not None
        }
        return Plan(answer, [config_record(key, config)])

    return view.read(plan)


def _check_alias(request: Request, alias: str | None) -> None:
    """Refuse an alias of what the sender may not write: others would write it by that name.

    Raises:
        RegistryError: 40301.
    """
    target = SubjectName.of(request.subject).sibling(alias or "").text
    if alias and not can_write(request.rights, target):
        raise RegistryError(
            40301, f"User is denied write access to subject '{target}', which the alias names"
        )


def delete_config(view: RegistryView, request: Request) -> Plan:
    key = _key(request)

    def plan(state: RegistryState) -> Plan:
        if key not in state.configs:
            if key is not None:
                raise subject_not_found(key)
            return Plan(dict(DEFAULT_CONFIG))
        return Plan(state.configs[key], [config_record(key, None)])

    return view.read(plan)


def get_mode(view: RegistryView, request: Request) -> Any:
    key = _key(request)

    def gather(state: RegistryState) -> Json:
        if key is None or request.flag("defaultToGlobal"):
            return {"mode": mode_in_scope(state, request.subject).value}
        if key not in state.modes:
            raise no_subject_mode(key)
        return {"mode": state.modes[key]}

    return view.read(gather)


def set_mode(view: RegistryView, request: Request) -> Plan:
    key, mode = _key(request), read_mode(request.members.get("mode"))
    if mode is Mode.IMPORT:
        check_context(request, request.subject, "Imports")

    def plan(state: RegistryState) -> Plan:
        records: list[Record] = []
        starts_import = (
            mode is Mode.IMPORT and mode_in_scope(state, request.subject) is not Mode.IMPORT
        )
        if starts_import and not request.flag("force"):
            if any(covers(key, each) for each in state.subjects(ANY_CONTEXT)):
                raise not_permitted("Cannot import since found existing subjects")
            # Deleted schemas would stand in the way of the ids to come.
            context = SubjectName.of(key or "").context
            records += [*state.keep_highest_id(context), clear_subject_record(key)]
        return Plan({"mode": mode.value}, [*records, mode_record(key, mode.value)])

    return view.read(plan)


def delete_mode(view: RegistryView, request: Request) -> Plan:
    key = _key(request)

    def plan(state: RegistryState) -> Plan:
        old = state.modes.get(key)
        if old is None and key is not None:
            raise subject_not_found(key)
        keys = [key]
        if request.flag("recursive"):
            keys += [
                each
                for each in state.modes
                if each is not None and each != key and covers(key, each)
            ]
        records = [mode_record(each, None) for each in keys if each in state.modes]
        return Plan({"mode": old or Mode.READWRITE.value}, records)

    return view.read(plan)
