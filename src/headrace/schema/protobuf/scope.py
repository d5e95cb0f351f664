"""All types that a file can name: its own and those of what it imports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headrace.schema.error import InvalidSchema
from headrace.schema.limit import name_limit
from headrace.schema.protobuf.source import read_source
from headrace.schema.protobuf.tree import SCALAR_GROUPS, Enum, Message, ProtoFile
from headrace.schema.protobuf.well_known import WELL_KNOWN


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A message or enum, its full name, its package, its import (None: this file)."""

    name: str
    package: str
    type: Message | Enum
    origin: str | None

    @property
    def local_name(self) -> str:
        """Return the name without the package."""
        return self.name[len(self.package) + 1 :] if self.package else self.name


class Scope:
    """Finds types by name, from within any message of the file."""

    def __init__(self, file: ProtoFile, resolved: Mapping[str, str]) -> None:
        self.files: dict[str, ProtoFile] = {}
        self._types: dict[str, TypeInfo] = {}
        self._found: dict[tuple[str, str], TypeInfo | None] = {}
        # A name is looked for in every scope around it.
        self._names = name_limit(times=4)
        waiting = [*file.imports, *file.public_imports]
        while waiting:
            path = waiting.pop()
            if path not in self.files:
                imported = self.files[path] = _imported(path, resolved)
                self._add(imported, path)
                waiting += [*imported.imports, *imported.public_imports]
        self._add(file, None)

    def find(self, name: str, scope: str) -> TypeInfo | None:
        """Return the type that a name means inside a scope, the innermost that fits.

        Raises:
            InvalidSchema: the names that were looked for are too long together.
        """
        key = name, scope
        if key not in self._found:
            self._found[key] = self._search(name, scope)
        return self._found[key]

    def _search(self, name: str, scope: str) -> TypeInfo | None:
        if name.startswith("."):
            return self._types.get(name[1:])
        while scope:
            self._names.spend(len(scope) + len(name))
            found = self._types.get(f"{scope}.{name}")
            if found is not None:
                return found
            scope = scope.rpartition(".")[0]
        return self._types.get(name)

    def full_name(self, name: str, scope: str) -> str:
        """Return a type's full name with a dot before it; a scalar's name as it is."""
        if name in SCALAR_GROUPS:
            return name
        found = self.find(name, scope)
        return name if found is None else f".{found.name}"

    def own_types(self) -> Iterator[TypeInfo]:
        """Yield the types of the file itself, outer ones first."""
        return (each for each in self._types.values() if each.origin is None)

    def _add(self, file: ProtoFile, origin: str | None) -> None:
        waiting: list[tuple[str, Message | Enum]] = [(file.package, each) for each in file.types]
        position = 0
        while position < len(waiting):
            outer, kind = waiting[position]
            position += 1
            self._names.spend(len(outer) + len(kind.name))
            name = f"{outer}.{kind.name}" if outer else kind.name
            if origin is None and name in self._types and self._types[name].origin is None:
                raise InvalidSchema(f"the type {name!r} is defined twice")
            self._types[name] = TypeInfo(name, file.package, kind, origin)
            if isinstance(kind, Message):
                waiting += [(name, each) for each in kind.types]


def _imported(path: str, resolved: Mapping[str, str]) -> ProtoFile:
    text = resolved.get(path) or WELL_KNOWN.get(path)
    if text is None:
        raise InvalidSchema(
            f"the import {path!r} is not known here; add a reference with this name"
        )
    try:
        return read_source(text)
    except InvalidSchema as error:
        raise InvalidSchema(f"in the imported file {path!r}: {error}") from None
