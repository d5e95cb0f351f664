"""A job's configuration, parsed and checked: other files see no texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.client.java_option import from_java
from headrace.client.settings import CLIENT_CONFIG
from headrace.flow.plan.plan import Guarantee
from headrace.flow.plan.setting import setting_problem
from headrace.flow.samza.application.stream_application import (
    Application,
    Description,
    StreamApplication,
    describe,
)
from headrace.flow.samza.config_key import check_application_keys, check_keys, nearest
from headrace.flow.samza.envelope import SystemStream
from headrace.flow.samza.key_texts import KeyTexts
from headrace.flow.samza.python_class import load_class
from headrace.flow.samza.serde import BUILT_IN, BytesSerde, Serde, built_in
from headrace.flow.samza.task import StreamTask, WindowableTask
from headrace.model.error import ConfigError

_BROADCAST = re.compile(r"(?P<stream>.+)#(?:(?P<one>\d+)|\[(?P<first>\d+)-(?P<last>\d+)\])")
_MAX_PARTITION = 100_000
_PLAN_SETTINGS = ("metrics.topic", "audit", "control")


@dataclass(frozen=True, slots=True)
class InputStream:
    """A topic that tasks read. Every task reads the partitions in `broadcast`."""

    stream: SystemStream
    key_serde: Serde
    message_serde: Serde
    oldest: bool = False
    bootstrap: bool = False
    priority: int = -1
    broadcast: range | None = None


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store that the configuration declares."""

    name: str
    key_serde: Serde
    message_serde: Serde
    changelog: SystemStream | None = None
    replication_factor: int = -1
    topic_config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobConfig:
    """The configuration of a job.

    Attributes:
        brokers: of each system, by name.
        consumer: Kafka's own keys for reading, by system.
        serdes: of keys and messages, by `system.topic`, or by `system` for other streams.
        target: the system that the job writes to.
        task: the class of its tasks; None if it has an application.
        intermediate: the number of tasks behind `partition_by`; None: as many as the
            largest input has partitions.
        texts: all keys and values of the file, for the task.
    """

    name: str
    id: str
    task: type[StreamTask] | None
    application: Application | None
    inputs: tuple[InputStream, ...]
    stores: tuple[StoreSpec, ...]
    brokers: Mapping[str, str]
    consumer: Mapping[str, Mapping[str, str]] = field(repr=False)
    producer: Mapping[str, Mapping[str, str]] = field(repr=False)
    serdes: Mapping[str, tuple[Serde, Serde]]
    target: str
    window_ms: int | None
    containers: int | None
    intermediate: int | None
    checkpoint_system: str | None
    checkpoint_replicas: int
    drop_unreadable: bool
    drop_unwritable: bool
    ignored: frozenset[str]
    guarantee: Guarantee
    dead_letters: str | None
    retries: int
    settings: Mapping[str, str]
    texts: Mapping[str, str] = field(repr=False)


def read_config(texts: Mapping[str, str], folder: Path | None = None) -> JobConfig:
    """Return the configuration of a job.

    Args:
        folder: a folder for modules and schema files, besides Python's own path.

    Raises:
        ConfigError: a key is unknown, missing or has a wrong value; the message names the nearest
            right key.
    """
    check_keys(texts)
    return _ConfigReader(dict(texts), folder).config()


class _ConfigReader(KeyTexts):
    """Reads one configuration."""

    def __init__(self, texts: dict[str, str], folder: Path | None) -> None:
        super().__init__(texts)
        self._folder = folder
        self._systems = self._read_systems()

    def config(self) -> JobConfig:
        name = self.get("job.name", "app.name") or self.need("job.name", "page-views")
        self._check_grouper()
        described = self._described()
        task = self._task() if described is None else None
        window_ms = self.number("task.window.ms", -1, -1)
        if window_ms > 0 and task is not None and not issubclass(task, WindowableTask):
            raise ConfigError(
                f"task.window.ms is set, but {task.__name__} is no WindowableTask: derive it from"
                " that, or leave the key out"
            )
        guarantees = tuple(each.value for each in Guarantee)
        settings = {f"spark.{key}": text for key, text in self.below("headrace.spark.").items()}
        own = {name: self.get(f"headrace.{name}") for name in _PLAN_SETTINGS}
        settings |= {name: text for name, text in own.items() if text}
        for prefix in ("source.", "sink."):
            below = self.below(f"headrace.{prefix}")
            settings |= {f"{prefix}{key}": text for key, text in below.items()}
        for key in settings:
            problem = setting_problem(key)
            if problem is not None:
                raise ConfigError(f"headrace.{key}: {problem}")
        containers = self.number("job.container.count", 0, 1) or None
        inputs = (*self._inputs(described), *self._broadcasts())
        streams = [each.stream for each in inputs]
        for each in streams:
            if streams.count(each) > 1:
                raise ConfigError(f"{each} is an input twice: name it once")
        stores = tuple(self._store(each) for each in self._store_names())
        application = None if described is None else self._application(described)
        return JobConfig(
            name=name,
            id=self.get("job.id", "app.id") or "1",
            task=task,
            application=application,
            inputs=inputs,
            stores=stores,
            brokers=self._systems,
            consumer={each: self._consumer(each) for each in self._systems},
            producer={each: self._producer(each) for each in self._systems},
            serdes=self._all_serdes(),
            target=self._target(inputs, stores, application),
            window_ms=window_ms if window_ms > 0 else None,
            containers=containers,
            intermediate=self.number("job.intermediate.stream.partitions", 0, 1) or None,
            checkpoint_system=self._checkpoint_system(),
            checkpoint_replicas=self.number("task.checkpoint.replication.factor", -1, -1),
            drop_unreadable=self.flag("task.drop.deserialization.errors"),
            drop_unwritable=self.flag("task.drop.serialization.errors"),
            ignored=frozenset(_names(self.get("task.ignored.exceptions"))),
            guarantee=Guarantee(
                self.one_of(("headrace.guarantee",), guarantees, Guarantee.EXACTLY_ONCE.value)
            ),
            dead_letters=self.get("headrace.dead.letters"),
            retries=self.number("headrace.retries", 1, 0),
            settings=settings,
            texts=dict(self.texts),
        )

    def _all_serdes(self) -> dict[str, tuple[Serde, Serde]]:
        serdes = {each: self._stream_serdes(SystemStream(each, "")) for each in self._systems}
        for system in self._systems:
            for key in self.below(f"systems.{system}.streams."):
                topic = key.partition(".samza.")[0]
                stream = SystemStream(system, topic)
                serdes[str(stream)] = self._stream_serdes(stream)
        for key in self.below("streams."):
            stream, named = self._stream(key.partition(".samza.")[0], "streams")
            serdes[str(stream)] = self._stream_serdes(stream, named)
        return serdes

    def _target(
        self,
        inputs: tuple[InputStream, ...],
        stores: tuple[StoreSpec, ...],
        application: Application | None,
    ) -> str:
        """Return the system that the job writes to.

        A batch is one transaction of one cluster, so there is only one.
        """
        changelogs = [(f"stores.{each.name}.changelog", each.changelog) for each in stores]
        written = [(key, each.system) for key, each in changelogs if each is not None]
        if application is not None:
            written += [(f"the output {each}", each.system) for each in application.outputs]
        checkpoint = self._checkpoint_system()
        if checkpoint is not None:
            written.insert(0, ("task.checkpoint.system", checkpoint))
        chosen = self.get("job.default.system") or inputs[0].stream.system
        if written:
            chosen = written[0][1]
        for key, system in written:
            if self._systems[system] != self._systems[chosen]:
                raise ConfigError(
                    f"{key} is in {system}, but {written[0][0]} in {chosen}, another cluster: a job"
                    " writes to one"
                )
        return chosen

    def _stream_serdes(self, stream: SystemStream, named: str | None = None) -> tuple[Serde, Serde]:
        prefixes = self._prefixes(stream, named)
        return (
            self._serde(*(f"{each}samza.key.serde" for each in prefixes)),
            self._serde(*(f"{each}samza.msg.serde" for each in prefixes)),
        )

    def _prefixes(self, stream: SystemStream, named: str | None) -> list[str]:
        """Return the prefixes of a stream's keys, the most specific first."""
        system, topic = stream
        mine = [] if named is None else [f"streams.{named}."]
        return [
            *mine,
            f"systems.{system}.streams.{topic}.",
            f"systems.{system}.default.stream.",
            f"systems.{system}.",
        ]

    def _read_systems(self) -> dict[str, str]:
        names = {key.split(".")[1] for key in self.texts if key.startswith("systems.")}
        systems = {}
        for name in sorted(names):
            factory = self.get(f"systems.{name}.samza.factory")
            if factory is not None and "kafka" not in factory.lower():
                raise ConfigError(
                    f"systems.{name}.samza.factory is {factory}: the log is the only system here;"
                    " write kafka"
                )
            brokers = self.get(
                f"systems.{name}.consumer.bootstrap.servers",
                f"systems.{name}.producer.bootstrap.servers",
            )
            if brokers is None:
                raise ConfigError(
                    f"systems.{name}.producer.bootstrap.servers is missing: write where the brokers"
                    f" of {name} are, as host:port"
                )
            systems[name] = brokers
        if not systems:
            self.need("systems.kafka.producer.bootstrap.servers", "127.0.0.1:9092")
        return systems

    def _consumer(self, system: str) -> dict[str, str]:
        keys = self.below(f"systems.{system}.consumer.")
        # Old versions of Samza found the brokers through ZooKeeper.
        left_out = ("bootstrap.servers", "zookeeper.connect", "auto.offset.reset", "group.id")
        return from_java(
            {key: text for key, text in keys.items() if key not in left_out},
            f"systems.{system}.consumer.",
        )

    def _producer(self, system: str) -> dict[str, str]:
        """Return how to log in to write; what tunes Java's producer has no effect."""
        prefix = f"systems.{system}.producer."
        return {
            key: text
            for key, text in from_java(self.below(prefix), prefix).items()
            if key in CLIENT_CONFIG and key != "bootstrap.servers"
        }

    def _check_grouper(self) -> None:
        key = "job.systemstreampartition.grouper.factory"
        if not (self.get(key) or "GroupByPartitionFactory").endswith("GroupByPartitionFactory"):
            raise ConfigError(
                f"{key} is {self.get(key)}: tasks are one for each partition here, which is"
                " GroupByPartitionFactory; leave the key out"
            )

    def _described(self) -> Description | None:
        """Return what the application declares; None if the job is a task.

        A Java class beside a task of Python is what a file of Samza's still has: it has no effect.
        """
        written = self.get("app.class")
        if written is None or (":" not in written and self.get("task.class")):
            return None
        kind = load_class("app.class", written, self._folder)
        if not issubclass(kind, StreamApplication):
            raise ConfigError(
                f"app.class is {written}, which is no StreamApplication: derive it from one"
            )
        check_application_keys(self.texts)
        return describe(kind, dict(self.texts))

    def _application(self, description: Description) -> Application:
        names = (*description.inputs, *description.outputs)
        return description.resolved(
            {each: self._stream(each, f"{description.kind.__name__}.describe")[0] for each in names}
        )

    def _task(self) -> type[StreamTask]:
        written = self.need("task.class", "my_tasks:CountViews")
        task = load_class("task.class", written, self._folder)
        if not issubclass(task, StreamTask):
            raise ConfigError(
                f"task.class is {written}, which is no StreamTask: derive it from one"
            )
        return task

    def _inputs(self, described: Description | None) -> list[InputStream]:
        if described is not None:
            who = f"{described.kind.__name__}.describe"
            return [self._input(each, who) for each in described.inputs]
        return [self._input(each) for each in _names(self.need("task.inputs", "kafka.views"))]

    def _broadcasts(self) -> list[InputStream]:
        return [self._broadcast(each) for each in _names(self.get("task.broadcast.inputs"))]

    def _broadcast(self, text: str) -> InputStream:
        match = _BROADCAST.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"task.broadcast.inputs has {text!r}: write the partitions too, kafka.rules#0 or"
                " kafka.rules#[0-3]"
            )
        first = int(match["one"] or match["first"])
        last = int(match["one"] or match["last"])
        if not first <= last <= _MAX_PARTITION:
            raise ConfigError(f"task.broadcast.inputs has {text!r}, which are no partitions")
        return self._input(match["stream"], "task.broadcast.inputs", range(first, last + 1))

    def _input(
        self, text: str, key: str = "task.inputs", broadcast: range | None = None
    ) -> InputStream:
        stream, named = self._stream(text, key)
        prefixes = self._prefixes(stream, named)
        key_serde, message_serde = self._stream_serdes(stream, named)
        begin = tuple(f"{each}samza.offset.default" for each in prefixes)
        priorities = [f"{each}samza.priority" for each in prefixes]
        priority = next((each for each in priorities if self.get(each)), priorities[0])
        return InputStream(
            stream,
            key_serde,
            message_serde,
            oldest=self.one_of(begin, ("oldest", "upcoming"), "upcoming") == "oldest",
            bootstrap=self.flag(*(f"{each}samza.bootstrap" for each in prefixes)),
            priority=self.number(priority, -1, -1),
            broadcast=broadcast,
        )

    def _stream(self, text: str, key: str) -> tuple[SystemStream, str | None]:
        """Return a stream, and its name under `streams.` if it has one."""
        system, _, topic = text.partition(".")
        if topic and system in self._systems:
            return SystemStream(system, topic), None
        default = self.get("job.default.system")
        written = self.below(f"streams.{text}.samza.")
        if written or (default and not topic):
            chosen = self.get(f"streams.{text}.samza.system") or default
            if chosen not in self._systems:
                raise ConfigError(
                    f"streams.{text}.samza.system is missing or no system: there are"
                    f" {', '.join(self._systems)}"
                )
            physical = self.get(f"streams.{text}.samza.physical.name") or text
            return SystemStream(chosen, physical), text
        raise ConfigError(
            f"{key} has {text!r}, but there is no system {system!r}: write"
            f" {next(iter(self._systems))}.TOPIC, or declare systems.{system}.samza.factory"
        )

    def _store_names(self) -> list[str]:
        names = (key.split(".")[1] for key in self.texts if key.startswith("stores."))
        return [each for each in dict.fromkeys(names) if each != "default"]

    def _store(self, name: str) -> StoreSpec:
        for part in ("key.serde", "msg.serde"):
            self.need(f"stores.{name}.{part}", "string")
        changelog = self.get(f"stores.{name}.changelog")
        return StoreSpec(
            name,
            self._serde(f"stores.{name}.key.serde"),
            self._serde(f"stores.{name}.msg.serde"),
            None if changelog is None else self._changelog(name, changelog),
            self.number(
                f"stores.{name}.changelog.replication.factor",
                self.number("stores.default.changelog.replication.factor", -1, -1),
                -1,
            ),
            self.below(f"stores.{name}.changelog.kafka."),
        )

    def _changelog(self, store: str, text: str) -> SystemStream:
        system, _, topic = text.partition(".")
        if topic and system in self._systems:
            return SystemStream(system, topic)
        default = self.get("job.changelog.system", "job.default.system")
        if default in self._systems and not topic:
            return SystemStream(default, text)
        raise ConfigError(
            f"stores.{store}.changelog is {text!r}: write"
            f" {next(iter(self._systems))}.{text.rpartition('.')[2]}"
        )

    def _checkpoint_system(self) -> str | None:
        factory = self.get("task.checkpoint.factory")
        named = self.get("task.checkpoint.system", "job.default.system")
        if factory is None and self.get("task.checkpoint.system") is None:
            return None
        if factory is not None and "kafka" not in factory.lower():
            raise ConfigError(
                f"task.checkpoint.factory is {factory}: offsets can be kept in a topic, with kafka"
            )
        chosen = named or next(iter(self._systems))
        if chosen not in self._systems:
            known = ", ".join(self._systems)
            raise ConfigError(f"task.checkpoint.system is {chosen!r}: there are {known}")
        return chosen

    def _serde(self, *keys: str) -> Serde:
        key = next((each for each in keys if self.get(each)), None)
        if key is None:
            return BytesSerde()
        name = self.get(key) or ""
        declared = self.get(f"serializers.registry.{name}.class")
        schema = self._schema(name)
        if declared is not None and ":" in declared:
            custom = load_class(f"serializers.registry.{name}.class", declared, self._folder)()
            if not isinstance(custom, Serde):
                raise ConfigError(f"serializers.registry.{name}.class is {declared}, no Serde")
            return custom
        serde = built_in(declared or name, schema)
        if serde is None:
            guess = nearest(f"serializers.registry.{name}.class")
            raise ConfigError(
                f"{key} is {declared or name!r}: write one of {', '.join(BUILT_IN)}, or declare"
                f" {guess or 'serializers.registry.NAME.class'}=module:Class"
            )
        return serde

    def _schema(self, name: str) -> str | None:
        key = f"serializers.registry.{name}.schema"
        text = self.get(key)
        if text is None or text.startswith(("{", "[", '"')):
            return text
        path = Path(text) if self._folder is None else self._folder / text
        try:
            return path.read_text()
        except OSError as error:
            raise ConfigError(f"{key} names {path}, which cannot be read: {error}") from error


def _names(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]
