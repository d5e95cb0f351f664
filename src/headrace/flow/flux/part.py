"""Making the objects that a file names: `className`, `constructorArgs`, `properties` and the rest.

A file says which code runs, as a Python program does: run only files that you would run as one.
"""

import importlib
import re
from collections.abc import Mapping
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.flux.document import Value

PART_KEYS = (
    *("id", "className", "constructorArgs", "properties", "configMethods"),
    *("factory", "factoryArgs"),
)
_NAME = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?")


def named(value: Value) -> Any:
    """What `module:name` stands for.

    Raises:
        FluxError: there is no such module, or nothing of that name in it.
    """
    text = value.text("className")
    if not _NAME.fullmatch(text):
        raise value.place.wrong(f"className cannot be {text!r}: write it as module:Class")
    module, colon, name = text.partition(":")
    if not colon:
        module, _, name = text.rpartition(".")
    if not module:
        raise value.place.wrong(f"className cannot be {text!r}: write it as module:Class")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise value.place.wrong(f"className {text}: {module} cannot be imported: {error}") from None
    for each in name.split("."):
        if not hasattr(found, each):
            raise value.place.wrong(f"className {text}: {module} has no {name}")
        found = getattr(found, each)
    return found


class Parts:
    """The `components` of a file, made in their order; each may name those before it."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def add(self, value: Value, *, override: bool = True) -> None:
        entries = value.mapping("a component", PART_KEYS)
        name = identity(value, "a component")
        if name in self._made and not override:
            return
        self._made[name] = self.make(value, entries)

    def make(self, value: Value, entries: Mapping[str, Value]) -> Any:
        """The object of an entry. A function without arguments is taken as it is."""
        if "className" not in entries:
            raise value.place.wrong("className is missing: write className: module:Class")
        kind = named(entries["className"])
        if "factory" in entries:
            method = entries["factory"].text("factory")
            kind = _method(kind, method, entries["factory"])
        given = entries.get("factoryArgs") or entries.get("constructorArgs")
        if isinstance(kind, type) or given is not None or "factory" in entries:
            made = self._call(kind, given, entries["className"])
        else:
            made = kind
        self._set_properties(made, entries)
        for each in (
            entries["configMethods"].items("configMethods") if ("configMethods" in entries) else ()
        ):
            call = each.mapping("a config method", ("name", "args"))
            if "name" not in call:
                raise each.place.wrong("a config method needs a name")
            name = call["name"].text("name")
            self._call(_method(made, name, call["name"]), call.get("args"), call["name"])
        return made

    def _set_properties(self, made: Any, entries: Mapping[str, Value]) -> None:
        if "properties" not in entries:
            return
        for each in entries["properties"].items("properties"):
            entry = each.mapping("a property", ("name", "value", "ref"))
            if "name" not in entry or ("value" in entry) == ("ref" in entry):
                raise each.place.wrong("a property needs a name, and either a value or a ref")
            name = entry["name"].text("name")
            value = self._ref(entry["ref"]) if "ref" in entry else self.value(entry["value"])
            try:
                setattr(made, name, value)
            except AttributeError as error:
                raise each.place.wrong(f"{name} cannot be set: {error}") from None

    def value(self, value: Value) -> Any:
        """As Python has it; `ref: id`, `reflist: [id, ...]` are the components of those names."""
        content = value.content
        if isinstance(content, dict):
            if set(content) == {"ref"}:
                return self._ref(content["ref"])
            if set(content) == {"reflist"}:
                return [self._ref(each) for each in content["reflist"].items("reflist")]
            return {name: self.value(each) for name, each in content.items()}
        if isinstance(content, list):
            return [self.value(each) for each in content]
        return content

    def _ref(self, value: Value) -> Any:
        name = value.text("ref")
        if name not in self._made:
            known = ", ".join(self._made) or "none"
            raise value.place.wrong(
                f"no component {name} stands before this line; there are {known}"
            )
        return self._made[name]

    def _call(self, target: Any, given: Value | None, where: Value) -> Any:
        arguments: list[Any] = []
        named_arguments: dict[str, Any] = {}
        if given is not None and isinstance(given.content, dict) and not _is_ref(given.content):
            named_arguments = {name: self.value(each) for name, each in given.content.items()}
        elif given is not None:
            arguments = [self.value(each) for each in given.items("constructorArgs")]
        try:
            return target(*arguments, **named_arguments)
        except FlowError as error:
            raise where.place.wrong(str(error)) from error
        except Exception as error:  # whatever a user's class raises
            name = getattr(target, "__qualname__", str(target))
            raise where.place.wrong(
                f"{name} could not be made: {type(error).__name__}: {error}"
            ) from error


def identity(value: Value, what: str) -> str:
    entries = value.mapping(what)
    if "id" not in entries:
        raise value.place.wrong(f"{what} needs an id")
    return entries["id"].text("id")


def _is_ref(content: Mapping[str, Value]) -> bool:
    return set(content) in ({"ref"}, {"reflist"})


def _method(target: Any, name: str, where: Value) -> Any:
    found = getattr(target, name, None)
    if not callable(found):
        kind = getattr(target, "__qualname__", type(target).__name__)
        raise where.place.wrong(f"{kind} has no method {name}")
    return found
