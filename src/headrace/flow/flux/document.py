"""A YAML file as values that know their lines, with `${...}` filled in.

What is filled in is a value and never more YAML: it cannot open a list or a new key. A text that is
nothing but `${n}` becomes what YAML would make of its value, so a number stays one.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headrace.flow.error import FlowError

ENVIRONMENT = "ENV-"
"""`${ENV-HOME}` is the variable HOME of the environment, as in Flux."""

_MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class FluxError(FlowError):
    """A mistake in a file; the message begins with file and line."""


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    line: int

    def wrong(self, message: str) -> FluxError:
        return FluxError(f"{self.path}:{self.line}: {message}")


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, a list of values or a mapping of names to values."""

    content: Any
    place: Place

    def mapping(self, what: str, known: Iterable[str] | None = None) -> dict[str, "Value"]:
        """Its entries.

        Raises:
            FluxError: it is no mapping, or has a key that is not known.
        """
        if not isinstance(self.content, dict):
            raise self.place.wrong(f"{what} must be a mapping, with lines such as id: words")
        if known is not None:
            names = list(known)
            for name, each in self.content.items():
                if name not in names:
                    near = difflib.get_close_matches(name, names, n=1)
                    instead = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
                    raise each.place.wrong(f"{what} has no key {name}; {instead}")
        return self.content

    def items(self, what: str) -> list["Value"]:
        if not isinstance(self.content, list):
            raise self.place.wrong(f"{what} must be a list, with lines that begin with -")
        return self.content

    def text(self, what: str) -> str:
        if not isinstance(self.content, str) or not self.content:
            raise self.place.wrong(f"{what} must be a text, not {self.plain()!r}")
        return self.content

    def number(self, what: str) -> int:
        if not isinstance(self.content, int) or isinstance(self.content, bool) or self.content < 1:
            raise self.place.wrong(f"{what} must be a number from 1 on, not {self.plain()!r}")
        return self.content

    def plain(self) -> Any:
        """As Python has it, without places."""
        if isinstance(self.content, dict):
            return {name: each.plain() for name, each in self.content.items()}
        if isinstance(self.content, list):
            return [each.plain() for each in self.content]
        return self.content


def read_document(path: Path, values: Mapping[str, str], used: set[str] | None = None) -> Value:
    """The file with its variables filled in.

    Args:
        values: what `${name}` stands for; environment variables under `ENV-`.
        used: gets the names that were asked for.

    Raises:
        FluxError: it is no YAML, or names a variable that has no value.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise FluxError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise FluxError(f"{path} is longer than {_MAX_BYTES:,} bytes: a topology is not")
    try:
        root = yaml.compose(data.decode(), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise FluxError(f"{path} is not written in UTF-8: {error}") from error
    except yaml.YAMLError as error:
        raise _not_yaml(path, error) from error
    if root is None:
        raise FluxError(f"{path} is empty")
    return _Reader(path, values, set() if used is None else used).value(root)


class _Reader:
    def __init__(self, path: Path, values: Mapping[str, str], used: set[str]) -> None:
        self._path, self._values, self._used = path, values, used
        self._read = 0
        self._constructor = yaml.SafeLoader("")

    def value(self, node: yaml.Node) -> Value:
        place = Place(self._path, node.start_mark.line + 1)
        self._read += 1
        if self._read > _MAX_VALUES:  # aliases can make a short file endless
            raise place.wrong(f"the file has more than {_MAX_VALUES:,} values")
        if isinstance(node, yaml.MappingNode):
            return Value(self._mapping(node), place)
        if isinstance(node, yaml.SequenceNode):
            return Value([self.value(each) for each in node.value], place)
        return Value(self._scalar(node, place), place)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, value in node.value:
            place = Place(self._path, key.start_mark.line + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise place.wrong("a key must be a text")
            if key.value in found:
                raise place.wrong(f"the key {key.value} is there twice")
            found[key.value] = self.value(value)
        return found

    def _scalar(self, node: yaml.Node, place: Place) -> Any:
        text = _VARIABLE.sub(lambda each: self._variable(each[1], place), node.value)
        if text == node.value:
            made = node
        else:
            tag = node.tag
            if node.style is None:  # neither quoted nor a block: its value decides
                tag = self._constructor.resolve(yaml.ScalarNode, text, (True, False))
            made = yaml.ScalarNode(tag, text)
        try:
            return self._constructor.construct_object(made)
        except (yaml.YAMLError, ValueError) as error:
            raise place.wrong(f"{text!r} cannot be read: {error}") from error

    def _variable(self, name: str, place: Place) -> str:
        self._used.add(name)
        if name in self._values:
            return self._values[name]
        if name.startswith(ENVIRONMENT):
            raise place.wrong(f"the environment has no variable {name[len(ENVIRONMENT) :]}")
        raise place.wrong(f"${{{name}}} has no value: give it with -X {name}=... or --filter FILE")


def _not_yaml(path: Path, error: yaml.YAMLError) -> FluxError:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error)
    if mark is None:
        return FluxError(f"{path} is no YAML: {said}")
    return Place(path, mark.line + 1).wrong(f"this is no YAML: {said}")
