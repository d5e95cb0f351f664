"""A Flux file as a topology.

```yaml
name: word-count
spouts:
  - id: lines
    className: headrace.flow.storm:TopicSpout
    constructorArgs: {topics: lines, brokers: "${brokers}", fields: value STRING}
bolts:
  - {id: split, className: words:split, output: word STRING}
  - {id: count, className: headrace.flow:Aggregate, constructorArgs: {by: word, n: count}}
sinks:
  - {id: out, className: headrace.flow.storm:TopicSink, constructorArgs: [counts]}
streams:
  - {from: lines, to: split, grouping: {type: SHUFFLE}}
  - {from: split, to: count, grouping: {type: FIELDS, args: [word]}}
  - {from: count, to: out, grouping: {type: SHUFFLE}}
```
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.flux.document import LinePosition, Value, read_document
from headrace.flow.flux.part import PART_KEYS, Parts, identity, load_object
from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.plan.setting import setting_problem
from headrace.flow.storm.topology import Inputs, Topology

_KEYS = ("name", "config", "includes", "components", "spouts", "bolts", "sinks", "streams")
_OWN_CONFIG = ("guarantee", "dead.letters", "retries", "latency")
_MAX_DEPTH = 16

_AddInput = Callable[[Inputs, str, list[Any], str], object]
_GROUPINGS: Mapping[str, _AddInput] = {
    "SHUFFLE": lambda to, source, args, stream: to.shuffle(source, stream),
    "LOCAL_OR_SHUFFLE": lambda to, source, args, stream: to.local_or_shuffle(source, stream),
    "NONE": lambda to, source, args, stream: to.none(source, stream),
    "FIELDS": lambda to, source, args, stream: to.fields(source, *args, stream=stream),
    "PARTIAL_KEY": lambda to, source, args, stream: to.partial_key(source, *args, stream=stream),
    "ALL": lambda to, source, args, stream: to.all(source, stream),
    "GLOBAL": lambda to, source, args, stream: to.global_(source, stream),
    "DIRECT": lambda to, source, args, stream: to.direct(source, stream),
    "CUSTOM": lambda to, source, args, stream: to.custom(source, args[0], stream),
}


def read_topology(
    path: Path, values: Mapping[str, str] | None = None, used: set[str] | None = None
) -> Topology:
    """Read the topology of a file.

    Args:
        values: what `${name}` stands for in the file.
        used: receives the names of the variables in the file.

    Raises:
        FluxError: naming file and line.
    """
    files = _TopologyFiles(dict(values or {}), set() if used is None else used)
    files.add(path, override=True, depth=0)
    return files.topology(path)


class _TopologyFiles:
    """A file and those that it includes, merged."""

    def __init__(self, values: Mapping[str, str], used: set[str]) -> None:
        self._values, self._used = values, used
        self._parts = Parts()
        self._name: Value | None = None
        self._config: dict[str, Value] = {}
        self._declared: dict[str, dict[str, Value]] = {"spouts": {}, "bolts": {}, "sinks": {}}
        self._streams: list[Value] = []

    def add(self, path: Path, *, override: bool, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise LinePosition(path, 1).error(
                f"files include each other, more than {_MAX_DEPTH} deep"
            )
        root = read_document(path, self._values, self._used)
        entries = root.mapping("a topology", _KEYS)
        for each in _list(entries, "includes"):
            self._include(path, each, depth)
        if "name" in entries and (override or self._name is None):
            self._name = entries["name"]
        if "config" in entries:
            new = entries["config"].mapping("config")
            self._config = {**self._config, **new} if override else {**new, **self._config}
        for each in _list(entries, "components"):
            self._parts.add(each, override=override)
        for kind, declared in self._declared.items():
            for each in _list(entries, kind):
                name = identity(each, f"one of {kind}")
                if override or name not in declared:
                    declared[name] = each
        self._streams += _list(entries, "streams")

    def _include(self, path: Path, value: Value, depth: int) -> None:
        entries = value.mapping("an include", ("file", "override", "resource"))
        if "file" not in entries:
            raise value.position.error("an include needs a file")
        if "resource" in entries and entries["resource"].content:
            raise value.position.error("resource: true is for Java; name a file instead")
        override = "override" in entries and entries["override"].content is True
        self.add(path.parent / entries["file"].text("file"), override=override, depth=depth + 1)

    def topology(self, path: Path) -> Topology:
        if self._name is None:
            raise LinePosition(path, 1).error("the topology has no name: write name: word-count")
        topology = _topology(self._name, self._config)
        for value in self._declared["spouts"].values():
            entries = value.mapping("a spout", (*PART_KEYS, "parallelism"))
            tasks = _parallelism(entries)
            spout = self._parts.make(value, entries)
            _declare(value, topology.spout, spout, parallelism=tasks)
        readers: dict[str, Inputs] = {}
        for value in self._declared["bolts"].values():
            readers[identity(value, "a bolt")] = self._bolt(topology, value)
        for value in self._declared["sinks"].values():
            sink = self._parts.make(value, value.mapping("a sink", PART_KEYS))
            readers[identity(value, "a sink")] = _declare(value, topology.sink, sink)
        for value in self._streams:
            self._stream(value, readers)
        return topology

    def _bolt(self, topology: Topology, value: Value) -> Inputs:
        keys = (*PART_KEYS, "parallelism", "output", "tickSeconds", "window")
        entries = value.mapping("a bolt", keys)
        bolt = self._parts.make(value, entries)
        output = entries["output"].plain() if "output" in entries else getattr(bolt, "output", ())
        options: dict[str, Any] = {"parallelism": _parallelism(entries)}
        if not callable(output):  # an Aggregate computes its own
            options["output"] = output
        if "tickSeconds" in entries:
            options["tick_seconds"] = float(entries["tickSeconds"].number("tickSeconds"))
        if "window" in entries:
            options["window"] = self._window(entries["window"])
        inputs: Inputs = _declare(value, topology.bolt, bolt, **options)
        return inputs

    def _window(self, value: Value) -> Any:
        if isinstance(value.content, dict) and "className" in value.content:
            return self._parts.make(value, value.mapping("a window", PART_KEYS))
        return self._parts.value(value)

    def _stream(self, value: Value, readers: Mapping[str, Inputs]) -> None:
        entries = value.mapping("a stream", ("name", "from", "to", "grouping"))
        for needed in ("from", "to", "grouping"):
            if needed not in entries:
                raise value.position.error(f"the stream has no {needed}")
        target = entries["to"].text("to")
        if target not in readers:
            known = ", ".join(readers)
            raise entries["to"].position.error(
                f"there is no bolt or sink {target}; there are {known}"
            )
        source = entries["from"].text("from")
        if not any(source in each for each in self._declared.values()):
            known = ", ".join([*self._declared["spouts"], *self._declared["bolts"]])
            raise entries["from"].position.error(
                f"there is no spout or bolt {source}; there are {known}"
            )
        grouping = entries["grouping"].mapping("a grouping", _GROUPING_KEYS)
        if "type" not in grouping:
            raise entries["grouping"].position.error("the grouping has no type, such as SHUFFLE")
        kind = grouping["type"].text("type").upper()
        if kind not in _GROUPINGS:
            raise grouping["type"].position.error(
                f"a grouping cannot be {kind}: write one of {', '.join(_GROUPINGS)}"
            )
        stream = grouping["streamId"].text("streamId") if "streamId" in grouping else DEFAULT_STREAM
        try:
            _GROUPINGS[kind](readers[target], source, self._arguments(kind, grouping), stream)
        except FlowError as error:
            raise grouping["type"].position.error(str(error)) from error

    def _arguments(self, kind: str, grouping: Mapping[str, Value]) -> list[Any]:
        if kind == "CUSTOM":
            if "customClass" not in grouping:
                raise grouping["type"].position.error("a CUSTOM grouping needs a customClass")
            custom = grouping["customClass"]
            if isinstance(custom.content, str):
                return [load_object(custom)]
            return [self._parts.make(custom, custom.mapping("a customClass", PART_KEYS))]
        return [each.text("an argument") for each in _list(grouping, "args")]


_GROUPING_KEYS = ("type", "args", "streamId", "customClass")


def _topology(name: Value, config: Mapping[str, Value]) -> Topology:
    for key, each in config.items():
        problem = setting_problem(key, _OWN_CONFIG)
        if problem is not None:
            raise each.position.error(problem)
    own = {key: each for key, each in config.items() if key in _OWN_CONFIG}
    settings = {
        # Spark's settings are true and false, as Java writes them.
        key: str(each.plain()).lower() if isinstance(each.content, bool) else str(each.plain())
        for key, each in config.items()
        if key not in _OWN_CONFIG
    }
    options: dict[str, Any] = {
        key: own[key].plain() for key in ("guarantee", "latency", "retries") if key in own
    }
    if "dead.letters" in own:
        options["dead_letters"] = own["dead.letters"].plain()
    try:
        return Topology(name.text("name"), settings=settings, **options)
    except FlowError as error:
        position = next(iter(own.values())).position if own else name.position
        raise position.error(str(error)) from error


def _declare(value: Value, declare: Callable[..., Any], part: Any, **options: Any) -> Any:
    try:
        return declare(identity(value, "a component"), part, **options)
    except FlowError as error:
        raise value.position.error(str(error)) from error
    except AttributeError as error:
        raise value.position.error(f"the class does not fit here: {error}") from error


def _parallelism(entries: Mapping[str, Value]) -> int:
    return entries["parallelism"].number("parallelism") if "parallelism" in entries else 1


def _list(entries: Mapping[str, Value], key: str) -> list[Value]:
    return entries[key].items(key) if key in entries else []
