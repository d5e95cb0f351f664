"""The keys of a job's configuration: Samza's, and a few of ours under `headrace.`.

A `*` stands for a name. A key whose first word is none of Samza's is the user's own: the task finds
it in `context.config`.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from headrace.model.error import ConfigError


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. Without `used` it is Samza's for something that Spark does here: taken, and without
    effect."""

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
    ConfigKey("job.name", "The job's name; it names its query, checkpoint and topics."),
    ConfigKey("job.id", "Tells two jobs of one name apart; 1."),
    ConfigKey("job.container.count", "In how many Spark tasks the tasks run."),
    ConfigKey("job.default.system", "The system of streams that name none."),
    ConfigKey("job.changelog.system", "The system of changelogs that name none."),
    ConfigKey("job.systemstreampartition.grouper.factory", "GroupByPartition alone."),
    ConfigKey("job.factory.class", "Spark runs the job.", used=False),
    ConfigKey("job.config.*", "Where Samza finds this file.", used=False),
    ConfigKey("job.coordinator.*", "Spark coordinates.", used=False),
    ConfigKey("job.host-affinity.enabled", "Spark places tasks.", used=False),
    ConfigKey("job.logged.store.base.dir", "Spark keeps the state.", used=False),
    ConfigKey("job.non-logged.store.base.dir", "Spark keeps the state.", used=False),
    ConfigKey("task.class", "The task, as module:Class."),
    ConfigKey("task.inputs", "Which streams, as system.topic, with commas."),
    ConfigKey("task.broadcast.inputs", "Streams for every task: system.topic#0 or #[0-3]."),
    ConfigKey("task.window.ms", "How often window() is called; -1: never."),
    ConfigKey("task.checkpoint.factory", "KafkaCheckpointManagerFactory: offsets in a topic too."),
    ConfigKey("task.checkpoint.system", "The system of that topic."),
    ConfigKey("task.checkpoint.replication.factor", "The replicas of that topic."),
    ConfigKey("task.drop.deserialization.errors", "Leave out what a serde cannot read."),
    ConfigKey("task.drop.serialization.errors", "Leave out what a serde cannot write."),
    ConfigKey("task.ignored.exceptions", "Exceptions of process() to pass over, by name; *: all."),
    ConfigKey("task.commit.ms", "Every batch commits.", used=False),
    ConfigKey("task.commit.max.delay.ms", "Every batch commits.", used=False),
    ConfigKey("task.shutdown.ms", "Spark ends the job.", used=False),
    ConfigKey("task.poll.interval.ms", "Spark polls.", used=False),
    ConfigKey("task.max.concurrency", "A task has one message at a time.", used=False),
    ConfigKey("task.max.idle.ms", "Spark schedules.", used=False),
    ConfigKey("task.callback.timeout.ms", "process() returns when it is done.", used=False),
    ConfigKey("task.name.grouper.factory", "Spark places tasks.", used=False),
    ConfigKey("task.opts", "Options of a Java machine.", used=False),
    ConfigKey("task.java.home", "A Java machine.", used=False),
    ConfigKey("task.execute", "A command of Samza's.", used=False),
    ConfigKey("systems.*.samza.factory", "KafkaSystemFactory alone."),
    ConfigKey("systems.*.consumer.*", "How to read: Kafka's keys."),
    ConfigKey("systems.*.producer.bootstrap.servers", "Where its brokers are."),
    ConfigKey("systems.*.producer.*", "How Samza's producer writes.", used=False),
    *(ConfigKey(f"systems.*.{name}", doc) for name, doc in _STREAM[:3]),
    *(ConfigKey(f"systems.*.default.stream.{name}", doc) for name, doc in _STREAM),
    *(ConfigKey(f"systems.*.streams.*.{name}", doc) for name, doc in _STREAM),
    *(ConfigKey(f"streams.*.{name}", doc) for name, doc in _STREAM),
    ConfigKey("streams.*.samza.system", "The system of a stream that has a name of its own."),
    ConfigKey("streams.*.samza.physical.name", "Its topic."),
    ConfigKey("stores.*.key.serde", "How a store's keys are written."),
    ConfigKey("stores.*.msg.serde", "How its values are written."),
    ConfigKey("stores.*.changelog", "The compacted topic that its changes go to, system.topic."),
    ConfigKey("stores.*.changelog.replication.factor", "The replicas of that topic."),
    ConfigKey("stores.*.changelog.kafka.*", "The configuration of that topic."),
    ConfigKey("stores.default.changelog.replication.factor", "For changelogs that say none."),
    ConfigKey("stores.*.factory", "Spark keeps the state.", used=False),
    ConfigKey("stores.*.rocksdb.*", "Spark keeps the state.", used=False),
    ConfigKey("stores.*.container.*", "Spark keeps the state.", used=False),
    ConfigKey("stores.*.write.batch.size", "Every batch writes at its end.", used=False),
    ConfigKey("stores.*.object.cache.size", "The state lies in memory.", used=False),
    ConfigKey("serializers.registry.*.class", "A serde: string, json ..., or module:Class."),
    ConfigKey("serializers.registry.*.schema", "The schema of an avro serde, or a file with it."),
    ConfigKey("headrace.guarantee", "exactly-once, at-least-once or at-most-once."),
    ConfigKey("headrace.dead.letters", "A topic for messages that process() cannot take."),
    ConfigKey("headrace.retries", "How often a batch that raised is tried again."),
    ConfigKey("headrace.metrics.topic", "Where to write what each batch did."),
    ConfigKey("headrace.audit", "Count what is read for the audit: auto, on or off."),
    ConfigKey("headrace.spark.*", "Spark's own settings, spark.*."),
    ConfigKey("app.name", "Another name for job.name."),
    ConfigKey("app.class", "Samza's high level programs, which cannot run here.", used=False),
    ConfigKey("app.id", "Another name for job.id."),
)

# Whole families of keys for what is not here: they are taken, so that a job's file can stay whole.
_FOREIGN = ("yarn", "cluster-manager", "metrics", "processor")
_WORDS = ("job", "task", "systems", "streams", "stores", "serializers", "headrace", "app")


def check_keys(keys: Iterable[str]) -> None:
    """Refuse the first key that is Samza's by its first word and not one of Samza's keys.

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


def find(key: str) -> ConfigKey | None:
    """The table's entry for a key."""
    return next((each for each in KEYS if _regex(each.pattern).fullmatch(key)), None)


def nearest(key: str) -> str | None:
    """The known key that looks most like one, with its names filled in."""
    words = key.split(".")
    guesses = [_filled(each.pattern, words) for each in KEYS if each.used]
    near = difflib.get_close_matches(key, guesses, n=1, cutoff=0.5)
    return near[0] if near else None


def _nearest(key: str) -> str:
    found = nearest(key)
    return f"; did you mean {found}?" if found else ""


def _filled(pattern: str, words: list[str]) -> str:
    parts = pattern.split(".")
    for at, part in enumerate(parts):
        if part == "*":
            parts[at] = words[at] if at < len(words) else "NAME"
    return ".".join(parts)


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".+"))
