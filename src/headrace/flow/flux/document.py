"""A YAML file as values with their line numbers, and variables `${...}` replaced.

A variable stands for a value and never for more YAML: it cannot open a list or a new key. A text
that is only `${n}` becomes what YAML would make of its value, so a number stays a number.
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
"""`${ENV-HOME}` is the environment variable HOME, as in Flux."""

_MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class FluxError(FlowError):
    """A mistake in a file; the message begins with file and line."""


@dataclass(frozen=True, slots=True)
class LinePosition:
    """A line of a file, for error messages."""

    path: Path
    line: int

    def error(self, message: str) -> FluxError:
        """Return the error to raise for a mistake in this line."""
        return FluxError(f"{self.path}:{self.line}: {message}")


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, a list of values or a mapping of names to values."""

    content: Any
    position: LinePosition

    def mapping(self, what: str, known: Iterable[str] | None = None) -> dict[str, "Value"]:
        """Return the entries of a mapping.

        Raises:
            FluxError: the value is no mapping, or has an unknown key.
        """
        if not isinstance(self.content, dict):
            raise self.position.error(f"{what} must be a mapping, with lines such as id: words")
        if known is not None:
            names = list(known)
            for name, each in self.content.items():
                if name not in names:
                    near = difflib.get_close_matches(name, names, n=1)
                    instead = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
                    raise each.position.error(f"{what} has no key {name}; {instead}")
        return self.content

    def items(self, what: str) -> list["Value"]:
        """Return the items of a list."""
        if not isinstance(self.content, list):
            raise self.position.error(f"{what} must be a list, with lines that begin with -")
        return self.content

    def text(self, what: str) -> str:
        if not isinstance(self.content, str) or not self.content:
            raise self.position.error(f"{what} must be a text, not {self.plain()!r}")
        return self.content

    def number(self, what: str) -> int:
        if not isinstance(self.content, int) or isinstance(self.content, bool) or self.content < 1:
            raise self.position.error(f"{what} must be a number from 1 on, not {self.plain()!r}")
        return self.content

    def plain(self) -> Any:
        """Return the value as Python's own types, without line numbers."""
        if isinstance(self.content, dict):
            return {name: each.plain() for name, each in self.content.items()}
        if isinstance(self.content, list):
            return [each.plain() for each in self.content]
        return self.content


def read_document(path: Path, values: Mapping[str, str], used: set[str] | None = None) -> Value:
    """Read a file and replace its variables.

    Args:
        values: what `${name}` stands for; environment variables under `ENV-`.
        used: receives the names of the variables in the file.

    Raises:
        FluxError: the file is no YAML, or names a variable that has no value.
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
    return _DocumentReader(path, values, set() if used is None else used).value(root)


class _DocumentReader:
    def __init__(self, path: Path, values: Mapping[str, str], used: set[str]) -> None:
        self._path, self._values, self._used = path, values, used
        self._read = 0
        self._constructor = yaml.SafeLoader("")

    def value(self, node: yaml.Node) -> Value:
        position = LinePosition(self._path, node.start_mark.line + 1)
        self._read += 1
        if self._read > _MAX_VALUES:  # a short file with aliases can stand for millions of values
            raise position.error(f"the file has more than {_MAX_VALUES:,} values")
        if isinstance(node, yaml.MappingNode):
            return Value(self._mapping(node), position)
        if isinstance(node, yaml.SequenceNode):
            return Value([self.value(each) for each in node.value], position)
        return Value(self._scalar(node, position), position)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        for key, value in node.value:
            position = LinePosition(self._path, key.start_mark.line + 1)
            if not isinstance(key, yaml.ScalarNode):
                raise position.error("a key must be a text")
            if key.value in entries:
                raise position.error(f"the key {key.value} is there twice")
            entries[key.value] = self.value(value)
        return entries

    def _scalar(self, node: yaml.Node, position: LinePosition) -> Any:
        text = _VARIABLE.sub(lambda each: self._variable(each[1], position), node.value)
        if text == node.value:
            filled = node
        else:
            tag = node.tag
            if node.style is None:  # neither quoted nor a block: its value decides
                tag = self._constructor.resolve(yaml.ScalarNode, text, (True, False))
            filled = yaml.ScalarNode(tag, text)
        try:
            return self._constructor.construct_object(filled)
        except (yaml.YAMLError, ValueError) as error:
            raise position.error(f"{text!r} cannot be read: {error}") from error

    def _variable(self, name: str, position: LinePosition) -> str:
        self._used.add(name)
        if name in self._values:
            return self._values[name]
        if name.startswith(ENVIRONMENT):
            raise position.error(f"the environment has no variable {name[len(ENVIRONMENT) :]}")
        raise position.error(
            f"${{{name}}} has no value: give it with -X {name}=... or --filter FILE"
        )


def _not_yaml(path: Path, error: yaml.YAMLError) -> FluxError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    if mark is None:
        return FluxError(f"{path} is no YAML: {problem}")
    return LinePosition(path, mark.line + 1).error(f"this is no YAML: {problem}")
