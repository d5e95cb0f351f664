"""The keys of a job's configuration: Samza's, and a few of ours under `headrace.`.

A `*` stands for a name. A key whose first word is none of Samza's belongs to the user: the task
finds it in `context.config`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from headrace.model.error import ConfigError


@dataclass(frozen=True, slots=True)
class SamzaKey:
    """One key. A key with `used=False` configures what Spark does here: it has no effect."""

    pattern: str
    doc: str
    used: bool = True


_STREAM = (
    ("samza.key.serde", "How keys are written."),
    ("samza.msg.serde", "How messages are written."),
    ("samza.offset.default", "Where to begin without a checkpoint: oldest or upcoming."),
    ("samza.bootstrap", "Whether to read all of it before any other stream."),
    ("samza.priority", "Streams with a higher one come first."),
)

KEYS = (
    SamzaKey("job.name", "The job's name; it names its query, checkpoint and topics."),
    SamzaKey("job.id", "Tells two jobs of one name apart; 1."),
    SamzaKey("job.container.count", "In how many Spark tasks the tasks run."),
    SamzaKey("job.default.system", "The system of streams that name none."),
    SamzaKey("job.changelog.system", "The system of changelogs that name none."),
    SamzaKey("job.intermediate.stream.partitions", "How many tasks are behind partition_by."),
    SamzaKey("job.systemstreampartition.grouper.factory", "GroupByPartition alone."),
    SamzaKey("job.factory.class", "Spark runs the job.", used=False),
    SamzaKey("job.config.*", "Where Samza finds this file.", used=False),
    SamzaKey("job.coordinator.*", "Spark coordinates.", used=False),
    SamzaKey("job.host-affinity.enabled", "Spark places tasks.", used=False),
    SamzaKey("job.logged.store.base.dir", "Spark keeps the state.", used=False),
    SamzaKey("job.non-logged.store.base.dir", "Spark keeps the state.", used=False),
    SamzaKey("task.class", "The task, as module:Class."),
    SamzaKey("task.inputs", "Which streams, as system.topic, with commas."),
    SamzaKey("task.broadcast.inputs", "Streams for every task: system.topic#0 or #[0-3]."),
    SamzaKey("task.window.ms", "How often window() is called; -1: never."),
    SamzaKey("task.checkpoint.factory", "KafkaCheckpointManagerFactory: offsets in a topic too."),
    SamzaKey("task.checkpoint.system", "The system of that topic."),
    SamzaKey("task.checkpoint.replication.factor", "The replicas of that topic."),
    SamzaKey("task.drop.deserialization.errors", "Leave out what a serde cannot read."),
    SamzaKey("task.drop.serialization.errors", "Leave out what a serde cannot write."),
    SamzaKey("task.ignored.exceptions", "Exceptions of process() to pass over, by name; *: all."),
    SamzaKey("task.commit.ms", "Every batch commits.", used=False),
    SamzaKey("task.commit.max.delay.ms", "Every batch commits.", used=False),
    SamzaKey("task.shutdown.ms", "Spark ends the job.", used=False),
    SamzaKey("task.poll.interval.ms", "Spark polls.", used=False),
    SamzaKey("task.max.concurrency", "A task has one message at a time.", used=False),
    SamzaKey("task.max.idle.ms", "Spark schedules.", used=False),
    SamzaKey("task.callback.timeout.ms", "process() returns when it is done.", used=False),
    SamzaKey("task.name.grouper.factory", "Spark places tasks.", used=False),
    SamzaKey("task.opts", "Options of a Java machine.", used=False),
    SamzaKey("task.java.home", "A Java machine.", used=False),
    SamzaKey("task.execute", "A command of Samza's.", used=False),
    SamzaKey("systems.*.samza.factory", "KafkaSystemFactory alone."),
    SamzaKey("systems.*.consumer.*", "How to read: Kafka's keys."),
    SamzaKey("systems.*.producer.bootstrap.servers", "Where its brokers are."),
    SamzaKey("systems.*.producer.security.protocol", "How to connect, to write."),
    SamzaKey("systems.*.producer.sasl.*", "How to log in, to write."),
    SamzaKey("systems.*.producer.ssl.*", "Which certificates to trust and show, to write."),
    SamzaKey("systems.*.producer.*", "How Samza's producer writes.", used=False),
    *(SamzaKey(f"systems.*.{name}", doc) for name, doc in _STREAM[:3]),
    *(SamzaKey(f"systems.*.default.stream.{name}", doc) for name, doc in _STREAM),
    *(SamzaKey(f"systems.*.streams.*.{name}", doc) for name, doc in _STREAM),
    *(SamzaKey(f"streams.*.{name}", doc) for name, doc in _STREAM),
    SamzaKey("streams.*.samza.system", "The system of a stream that has a name of its own."),
    SamzaKey("streams.*.samza.physical.name", "Its topic."),
    SamzaKey("stores.*.key.serde", "How a store's keys are written."),
    SamzaKey("stores.*.msg.serde", "How its values are written."),
    SamzaKey("stores.*.changelog", "The compacted topic that its changes go to, system.topic."),
    SamzaKey("stores.*.changelog.replication.factor", "The replicas of that topic."),
    SamzaKey("stores.*.changelog.kafka.*", "The configuration of that topic."),
    SamzaKey("stores.default.changelog.replication.factor", "For changelogs that say none."),
    SamzaKey("stores.*.factory", "Spark keeps the state.", used=False),
    SamzaKey("stores.*.rocksdb.*", "Spark keeps the state.", used=False),
    SamzaKey("stores.*.container.*", "Spark keeps the state.", used=False),
    SamzaKey("stores.*.write.batch.size", "Every batch writes at its end.", used=False),
    SamzaKey("stores.*.object.cache.size", "The state lies in memory.", used=False),
    SamzaKey("serializers.registry.*.class", "A serde: string, json ..., or module:Class."),
    SamzaKey("serializers.registry.*.schema", "The schema of an avro serde, or a file with it."),
    SamzaKey("headrace.guarantee", "exactly-once, at-least-once or at-most-once."),
    SamzaKey("headrace.dead.letters", "A topic for messages that process() cannot take."),
    SamzaKey("headrace.retries", "How often a batch that raised is tried again."),
    SamzaKey("headrace.metrics.topic", "Where to write what each batch did."),
    SamzaKey("headrace.control", "Report to the brokers, for commands: auto, on or off."),
    SamzaKey("headrace.audit", "Count what is read for the audit: auto, on or off."),
    SamzaKey("headrace.source.*", "How inputs are read: a plan's settings, source.*."),
    SamzaKey("headrace.sink.*", "How outputs are written: a plan's settings, sink.*."),
    SamzaKey("headrace.spark.*", "Spark's own settings, spark.*."),
    SamzaKey("app.name", "Another name for job.name."),
    SamzaKey("app.class", "The application, as module:Class, in place of task.class."),
    SamzaKey("app.id", "Another name for job.id."),
    SamzaKey("app.runner.class", "Spark runs the application.", used=False),
    SamzaKey("app.mode", "Spark runs the application.", used=False),
)

# Families of keys for parts of Samza that are not here. They have no effect, so that a job's file
# needs no change.
_FOREIGN = ("yarn", "cluster-manager", "metrics", "processor")
# Keys for tasks, and what an application has instead.
_OF_TASKS = {
    "task.class": "app.class is what runs; leave out one of the two",
    "task.inputs": "the application names its inputs itself, with app.input_stream",
    "task.broadcast.inputs": "write .broadcast() behind app.input_stream",
    "task.checkpoint.factory": (
        "windows, tables and offsets of an application are in Spark's checkpoint, together; leave"
        " the key out"
    ),
    "task.checkpoint.system": "offsets of an application are in Spark's checkpoint",
    "stores.": "an application keeps windows, joins and tables (app.table) without stores",
}
_WORDS = ("job", "task", "systems", "streams", "stores", "serializers", "headrace", "app")


def check_keys(keys: Iterable[str]) -> None:
    """Refuse an unknown key whose first word is Samza's.

    Raises:
        ConfigError: naming the nearest key.
    """
    for key in keys:
        first = key.partition(".")[0]
        if first in _WORDS:
            if find(key) is None:
                raise ConfigError(f"{key} is no key of a job{_nearest(key)}")
        elif first not in _FOREIGN:
            near = difflib.get_close_matches(first, _WORDS, n=1, cutoff=0.7)
            if near:
                guess = key.replace(first, near[0], 1)
                known = guess if find(guess) else nearest(guess)
                raise ConfigError(f"{key} is no key of a job; did you mean {known}?")


def check_application_keys(texts: Mapping[str, str]) -> None:
    """Refuse a key that is for tasks, in a job that has an application.

    Raises:
        ConfigError: saying what an application has instead.
    """
    for key, text in texts.items():
        for begin, instead in _OF_TASKS.items():
            same = key.startswith(begin) if begin.endswith(".") else key == begin
            if same and text.strip():
                raise ConfigError(f"{key} is for tasks, but app.class is set: {instead}")


def find(key: str) -> SamzaKey | None:
    """Return the table's entry for a key."""
    return next((each for each in KEYS if _regex(each.pattern).fullmatch(key)), None)


def nearest(key: str) -> str | None:
    """Return the known key that is most similar, with the names of this one."""
    words = key.split(".")
    guesses = [_filled(each.pattern, words) for each in KEYS if each.used]
    near = difflib.get_close_matches(key, guesses, n=1, cutoff=0.5)
    return near[0] if near else None


def _nearest(key: str) -> str:
    near = nearest(key)
    return f"; did you mean {near}?" if near else ""


def _filled(pattern: str, words: list[str]) -> str:
    parts = pattern.split(".")
    for at, part in enumerate(parts):
        if part == "*":
            parts[at] = words[at] if at < len(words) else "NAME"
    return ".".join(parts)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".+"))
