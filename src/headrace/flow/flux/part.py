"""Making the objects that a file names: `className`, `constructorArgs`, `properties` and the rest.

Security: a file decides which code runs, as a Python program does. Run only files that you trust.
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


def load_object(value: Value) -> Any:
    """Return the class or function that `module:name` stands for.

    Raises:
        FluxError: there is no such module, or it has no such name.
    """
    text = value.text("className")
    if not _NAME.fullmatch(text):
        raise value.position.error(f"className cannot be {text!r}: write it as module:Class")
    module, colon, name = text.partition(":")
    if not colon:
        module, _, name = text.rpartition(".")
    if not module:
        raise value.position.error(f"className cannot be {text!r}: write it as module:Class")
    try:
        loaded: Any = importlib.import_module(module)
    except ImportError as error:
        raise value.position.error(
            f"className {text}: {module} cannot be imported: {error}"
        ) from None
    for each in name.split("."):
        if not hasattr(loaded, each):
            raise value.position.error(f"className {text}: {module} has no {name}")
        loaded = getattr(loaded, each)
    return loaded


class Parts:
    """The `components` of a file, made in their order; each may refer to earlier ones."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}

    def add(self, value: Value, *, override: bool = True) -> None:
        """Make the object of an entry of `components`."""
        entries = value.mapping("a component", PART_KEYS)
        name = identity(value, "a component")
        if name in self._objects and not override:
            return
        self._objects[name] = self.make(value, entries)

    def make(self, value: Value, entries: Mapping[str, Value]) -> Any:
        """Make the object of an entry. A function without arguments is used as it is."""
        if "className" not in entries:
            raise value.position.error("className is missing: write className: module:Class")
        kind = load_object(entries["className"])
        if "factory" in entries:
            method = entries["factory"].text("factory")
            kind = _method(kind, method, entries["factory"])
        given = entries.get("factoryArgs") or entries.get("constructorArgs")
        if isinstance(kind, type) or given is not None or "factory" in entries:
            part = self._call(kind, given, entries["className"])
        else:
            part = kind
        self._set_properties(part, entries)
        for each in (
            entries["configMethods"].items("configMethods") if ("configMethods" in entries) else ()
        ):
            call = each.mapping("a config method", ("name", "args"))
            if "name" not in call:
                raise each.position.error("a config method needs a name")
            name = call["name"].text("name")
            self._call(_method(part, name, call["name"]), call.get("args"), call["name"])
        return part

    def _set_properties(self, part: Any, entries: Mapping[str, Value]) -> None:
        if "properties" not in entries:
            return
        for each in entries["properties"].items("properties"):
            entry = each.mapping("a property", ("name", "value", "ref"))
            if "name" not in entry or ("value" in entry) == ("ref" in entry):
                raise each.position.error("a property needs a name, and either a value or a ref")
            name = entry["name"].text("name")
            value = self._ref(entry["ref"]) if "ref" in entry else self.value(entry["value"])
            try:
                setattr(part, name, value)
            except AttributeError as error:
                raise each.position.error(f"{name} cannot be set: {error}") from None

    def value(self, value: Value) -> Any:
        """Return a value as Python's own types.

        `ref: id` and `reflist: [id, ...]` stand for the components with these ids.
        """
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
        if name not in self._objects:
            known = ", ".join(self._objects) or "none"
            raise value.position.error(
                f"no component {name} stands before this line; there are {known}"
            )
        return self._objects[name]

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
            raise where.position.error(str(error)) from error
        except Exception as error:  # whatever a user's class raises
            name = getattr(target, "__qualname__", str(target))
            raise where.position.error(
                f"{name} could not be made: {type(error).__name__}: {error}"
            ) from error


def identity(value: Value, what: str) -> str:
    """Return the id of an entry."""
    entries = value.mapping(what)
    if "id" not in entries:
        raise value.position.error(f"{what} needs an id")
    return entries["id"].text("id")


def _is_ref(content: Mapping[str, Value]) -> bool:
    return set(content) in ({"ref"}, {"reflist"})


def _method(target: Any, name: str, where: Value) -> Any:
    method = getattr(target, name, None)
    if not callable(method):
        kind = getattr(target, "__qualname__", type(target).__name__)
        raise where.position.error(f"{kind} has no method {name}")
    return method
