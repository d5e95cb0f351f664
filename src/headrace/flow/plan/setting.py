"""The settings of a plan: the ones that have a meaning, and Storm's that have none here.

`Topology(settings=)`, Flux's `config`, `-X` and, under `headrace.`, a Samza job take the same keys.
An unknown key is refused: a flow that ignores a misspelled one runs, and does something else than
its author thinks.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from headrace.flow.error import FlowError

SETTINGS: Final[Mapping[str, str]] = {
    "metrics.topic": "where to write what each batch did",
    "audit": "count what is read for the audit: `auto`, `on` or `off`",
    "audit.tier": "the name under which it is counted",
    "audit.bucketMs": "the length of the audit's buckets",
    "audit.topic": "where the counts go",
    "control": "report to the brokers and do what commands ask there: `auto`, `on` or `off`",
    "source.maxOffsetsPerTrigger": "how many records a spout reads per batch at most: 1,000,000",
    "source.minOffsetsPerTrigger": "how many must be there to start one",
    "source.maxTriggerDelay": "how long to wait for them",
    "source.minPartitions": "how many tasks read at least",
    "source.maxRecordsPerPartition": "how many records a task reads at most",
    "source.failOnDataLoss": "whether to fail when records went away unread",
    "source.acceptNewTopicIds": "whether topics that were created again have the same records: for "
    "one start",
    "source.kafkaConsumer.pollTimeoutMs": "how long a task tries to get what must be there",
    "source.fetchOffset.numRetries": "how often to ask again for ends that went backwards",
    "source.fetchOffset.retryIntervalMs": "how long to wait before that",
    "source.kafka.*": "how spouts connect and read: Kafka's own keys",
    "sink.kafka.*": "how records are written: `sink.kafka.transaction.timeout.ms`, for example",
    "sink.sinkIdPrefix": "what the names of the sink's group and transactional id begin with",
    "topology.max.spout.pending": "after how many tuples a batch of a Python spout ends: 10,000",
    "topology.message.timeout.secs": "after which time those of a running batch are failed: never",
    "sink.replayMayDiffer": "whether the last batch may come again with another number of records",
    "kafka.*": "how all clients of the flow connect and log in: `kafka.sasl.username`",
    "spark.*": "Spark's own settings",
}
"""Every setting of a plan, as `docs/flow.md` lists them. A `*` stands for any name."""

STORM_KEYS: Final[Mapping[str, str]] = {
    "topology.acker.*": "Spark repeats a batch that fails",
    "topology.auto-credentials": "",
    "topology.backpressure.*": "`source.maxOffsetsPerTrigger` bounds a batch",
    "topology.batch.flush.interval.millis": "",
    "topology.blobstore.map": "",
    "topology.bolt.*": "",
    "topology.bolts.*": "a bolt's `window=` says it",
    "topology.builtin.metrics.bucket.size.secs": "metrics are per batch",
    "topology.classpath": "",
    "topology.classpath.beginning": "",
    "topology.component.*": "",
    "topology.debug": "",
    "topology.disable.loadaware.messaging": "",
    "topology.disruptor.*": "",
    "topology.enable.message.timeouts": "",
    "topology.environment": "`spark.executorEnv.NAME`",
    "topology.error.throttle.interval.secs": "",
    "topology.eventlogger.*": "",
    "topology.executor.*": "",
    "topology.fall.back.on.java.serialization": "",
    "topology.groups": "",
    "topology.isolate.machines": "",
    "topology.kryo.*": "",
    "topology.logging.sensitivity": "",
    "topology.max.error.report.per.interval": "",
    "topology.max.replication.wait.time.sec": "",
    "topology.max.task.parallelism": "`parallelism` of each bolt",
    "topology.metrics.*": "`metrics.topic`",
    "topology.min.replication.count": "",
    "topology.multilang.serializer": "",
    "topology.name": "the topology has a name",
    "topology.optimize": "",
    "topology.priority": "",
    "topology.producer.batch.size": "",
    "topology.ras.*": "",
    "topology.readonly.*": "",
    "topology.receiver.buffer.size": "",
    "topology.scheduler.*": "",
    "topology.serialized.message.size.metrics": "",
    "topology.shared.memory": "",
    "topology.shellbolt.max.pending": "",
    "topology.skip.missing.kryo.registrations": "",
    "topology.sleep.spout.wait.strategy.time.ms": "",
    "topology.spout.*": "",
    "topology.spreading": "",
    "topology.state.*": "Spark keeps the state, in its checkpoint",
    "topology.stats.*": "",
    "topology.submitter.*": "",
    "topology.subprocess.timeout.secs": "",
    "topology.tasks": "`parallelism` of each bolt",
    "topology.testing.always.try.serialize": "",
    "topology.tick.tuple.freq.secs": "`tick_seconds` of a bolt, `tickSeconds` in Flux",
    "topology.transfer.*": "",
    "topology.trident.*": "a batch of Trident is one of Spark",
    "topology.tuple.serializer": "",
    "topology.users": "",
    "topology.version.override": "",
    "topology.worker.*": "`spark.executor.memory` and others",
    "topology.workers": "`spark.executor.instances`, or the master's number of cores",
    **{
        f"{family}.*": ""
        for family in (
            *("blacklist", "blobstore", "client", "dev", "drpc", "executor", "java", "logviewer"),
            *("nimbus", "pacemaker", "resource", "scheduler", "storm", "supervisor", "task"),
            *("transactional", "ui", "worker", "zmq"),
        )
    },
}
"""Storm's own keys, which have no effect here, and what to write instead where there is something.
They are accepted, so that a topology's file needs no change."""


_FAMILY: Final = re.compile(r"\w+\.\*")


def check_settings(keys: Iterable[str], more: Iterable[str] = ()) -> None:
    """Refuse an unknown key.

    Args:
        more: further keys that are known where these are written.

    Raises:
        FlowError: names the nearest known key.
    """
    for key in keys:
        problem = setting_problem(key, more)
        if problem is not None:
            raise FlowError(problem)


def setting_problem(key: str, more: Iterable[str] = ()) -> str | None:
    """Return why there is no such setting, in a sentence; None if there is."""
    others = tuple(more)
    if is_setting(key) or is_storms(key) or key in others:
        return None
    near = nearest_setting(key, others)
    instead = f"did you mean {near}?" if near else f"there are {', '.join([*others, *SETTINGS])}"
    return f"there is no setting {key}; {instead}"


def is_setting(key: str) -> bool:
    """Return whether a key has a meaning here."""
    return any(_regex(pattern).fullmatch(key) for pattern in SETTINGS)


def is_storms(key: str) -> bool:
    """Return whether a key is one of Storm's that have no effect here."""
    return any(_regex(pattern).fullmatch(key) for pattern in STORM_KEYS)


def nearest_setting(key: str, more: Iterable[str] = ()) -> str | None:
    """Return the known key that is most similar; a pattern gets the words of this key."""
    words = key.split(".")
    # A short first word decides about a long key: sprak.executor.memory.
    first = difflib.get_close_matches(
        words[0], ("spark", "source", "sink", "kafka"), n=1, cutoff=0.7
    )
    guess = ".".join([*first, *words[1:]])
    if first and is_setting(guess):
        return guess
    # A whole family, such as Storm's ui.*, is near to everything.
    patterns = [each for each in [*SETTINGS, *STORM_KEYS] if not _FAMILY.fullmatch(each)]
    known = [*more, *(guess for pattern in patterns for guess in _guesses(pattern, words))]
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    return near[0] if near else None


def prefixed(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings that begin with a prefix, without it."""
    return {
        key.removeprefix(prefix): text for key, text in settings.items() if key.startswith(prefix)
    }


def _guesses(pattern: str, words: list[str]) -> Iterator[str]:
    """Yield keys of a pattern that a key with these words may stand for."""
    if not pattern.endswith(".*"):
        yield pattern
        return
    fixed = pattern.removesuffix(".*").split(".")
    if words[len(fixed) :]:
        yield ".".join([*fixed, *words[len(fixed) :]])
    if pattern in SETTINGS and fixed[1] not in words:
        # sink.acks stands for sink.kafka.acks.
        yield ".".join([*fixed, *words[1:]])


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".+"))
