"""A Samza job as a plan that Spark runs.

Where state is
--------------
Spark's checkpoint has the stores and the offsets of every batch, and a job continues from there. If
it is lost, stores are restored from their changelogs and offsets from the checkpoint topic
(task.checkpoint.factory=kafka). Both are written in the transaction of the batch, so stores and
offsets are restored as of the end of the same batch.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.client.admin.admin import NewTopic
from headrace.client.settings import CLIENT_CONFIG
from headrace.client.user_login import is_security_key
from headrace.config.properties import read_properties
from headrace.flow.error import FlowError
from headrace.flow.execution.job import start
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.plan.client_option import KAFKA, client_of, user_settings
from headrace.flow.plan.grouping import All, Custom, Shuffle
from headrace.flow.plan.plan import DEFAULT_STREAM, Input, Kind, Plan, PlanComponent
from headrace.flow.plan.stage import stage_layout
from headrace.flow.runtime.record import RECORD_FIELDS
from headrace.flow.samza.application.component import ApplicationPlan
from headrace.flow.samza.changelog import ChangelogRestore
from headrace.flow.samza.checkpoint_start import CheckpointStart
from headrace.flow.samza.config import InputStream, JobConfig, read_config
from headrace.flow.samza.input_record import choose_task, spout_name
from headrace.flow.samza.job_topic import JobTopics
from headrace.flow.samza.record_sink import RecordSink
from headrace.flow.samza.shutdown import watch_shutdown
from headrace.flow.samza.task_work import ControlTopics, TaskWork
from headrace.flow.storage.file_store import FileStore
from headrace.flow.storage.hadoop_file_store import open_store
from headrace.flow.storage.location import Location
from headrace.flow.storm.spout import RECORD_COLUMNS, TopicSpout

_COMPACTED = {"cleanup.policy": "compact"}
_MAX_TASKS = 10_000
_TOPICS = "topics"


def load(source: str | Path | Mapping[str, str]) -> "SamzaJob":
    """Return the job of a `.properties` file, or of its keys. A system without a login of its own
    has that of this user ($HEADRACE_CLIENT_CONFIG), if the job writes to it.

    Raises:
        ConfigError: the file, a key or a value is wrong; the message names it.

    Example:
        load("page_views.properties").start(session("page-views"), checkpoint=Path("views"))
    """
    job = SamzaJob(read_config(source)) if isinstance(source, Mapping) else read_job(Path(source))
    return job.with_user_login()


def read_job(path: Path) -> "SamzaJob":
    """Return the job of a `.properties` file; it may name modules beside the file."""
    entries = read_properties(path, os.environ)
    texts = {key: each.value for key, each in entries.items()}
    return SamzaJob(read_config(texts, path.parent))


class SamzaJob:
    """A job, made by `load`.

    `start` creates its topics, restores its stores and handles shutdown requests. `plan` is the job
    without these.
    """

    def __init__(self, config: JobConfig) -> None:
        self.config = config

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def brokers(self) -> str:
        """The brokers that it writes to."""
        return self.config.brokers[self.config.target]

    def with_user_login(self) -> "SamzaJob":
        """Return the job with what this user's file has for the system that it writes to.

        Raises:
            ConfigError: the file cannot be used.
        """
        config = self.config
        own = {**config.producer[config.target], **config.consumer[config.target]}
        if _secured(own):
            return self
        settings = user_settings(config.settings, self.brokers, config.name)
        return SamzaJob(replace(config, settings=settings))

    def plan(self, partitions: Mapping[str, int] | None = None) -> Plan:
        """Return the plan without topics of the job itself; changelog topics must exist.

        Args:
            partitions: the number of partitions of each input, by `system.topic`; by default the
                brokers are asked.
        """
        counts = self._partitions() if partitions is None else dict(partitions)
        return self._plan(counts, ControlTopics(), CheckpointStart())

    def start(
        self,
        spark: Any,
        *,
        checkpoint: str | Path | Location,
        trigger: dict[str, Any] | None = None,
        metrics: MetricsServer | None = None,
    ) -> Any:
        """Start the job, or continue from its checkpoint, and return Spark's query.

        The job ends when its tasks request it (`coordinator.shutdown`).

        Args:
            checkpoint: a folder, as a path or as a URI such as hdfs://host/views.
            metrics: serves the figures of the run from now on. The caller closes it.

        Raises:
            FlowError: an input is missing, a topic cannot be created, or executors on other
                machines would not reach the checkpoint.
        """
        location = Location.of(checkpoint)
        store = open_store(spark, location, "the checkpoint")
        partitions = self._partitions()
        control = ControlTopics(
            checkpoint=self._checkpoint_topic, coordinator=self._coordinator_topic
        )
        topics = JobTopics(self._client(self.config.target))
        tasks = _tasks(self.config, partitions)
        topics.ensure(self._own_topics(tasks))
        began = self._checkpoint_start(store, topics, partitions)
        restore = ChangelogRestore(
            client=self._client(self.config.target),
            topics=self._changelogs,
            ends=began.changelog_ends,
        )
        plan = self._plan(partitions, replace(control, restore=restore), began)
        began.check_tasks(self._state_tasks(plan))
        earlier_end = topics.ends(self._coordinator_topic).get(0, 0)
        query = start(
            plan,
            spark,
            brokers=self.brokers,
            checkpoint=location,
            trigger=trigger,
            metrics=metrics,
        )
        watch_shutdown(
            query,
            self._client(self.config.target),
            self._coordinator_topic,
            first=earlier_end,
            tasks=tasks,
        )
        return query

    def create_inputs(self) -> None:
        """Create the inputs that are missing, with their brokers' default number of partitions, and
        so the outputs of an application; a task names its outputs only when it sends.

        Raises:
            FlowError: a broker refuses.
        """
        for system in self.config.brokers:
            application = self.config.application
            outputs = () if application is None else application.outputs
            streams = (*(each.stream for each in self.config.inputs), *outputs)
            names = dict.fromkeys(each.stream for each in streams if each.system == system)
            JobTopics(self._client(system)).ensure(NewTopic(name) for name in names)

    @property
    def _checkpoint_topic(self) -> str | None:
        config = self.config
        if config.checkpoint_system is None:
            return None
        return f"__samza_checkpoint_ver_1_for_{config.name}_{config.id}"

    @property
    def _coordinator_topic(self) -> str:
        return f"__samza_coordinator_{self.config.name}_{self.config.id}"

    @property
    def _changelogs(self) -> dict[str, str]:
        return {
            each.name: each.changelog.stream
            for each in self.config.stores
            if each.changelog is not None
        }

    def _own_topics(self, tasks: int) -> list[NewTopic]:
        topics = [NewTopic(self._coordinator_topic, 1)]
        if self._checkpoint_topic is not None:
            replicas = self.config.checkpoint_replicas
            topics.append(NewTopic(self._checkpoint_topic, 1, replicas, _COMPACTED))
        topics += [
            NewTopic(
                each.changelog.stream,
                tasks,
                each.replication_factor,
                {**_COMPACTED, **each.topic_config},
            )
            for each in self.config.stores
            if each.changelog is not None
        ]
        return topics

    def _state_tasks(self, plan: Plan) -> dict[str, int]:
        """Return the tasks of each component of an application that has slots, in their order."""
        if self.config.application is None:
            return {}
        return {name: len(slots) for name, slots in stage_layout(plan).slots.items()}

    def _checkpoint_start(
        self, checkpoint: FileStore, topics: JobTopics, partitions: dict[str, int]
    ) -> CheckpointStart:
        written = CheckpointStart.read(checkpoint)
        if written is not None:
            return written
        began = CheckpointStart()
        # A checkpoint with batches but without the file began with nothing.
        if not checkpoint.exists("offsets/0"):
            began = CheckpointStart(
                changelog_ends={
                    store: topics.ends(topic) for store, topic in self._changelogs.items()
                },
                offsets={}
                if self._checkpoint_topic is None
                else _offsets(topics.records(self._checkpoint_topic)),
                tasks=self._state_tasks(self._plan(partitions, ControlTopics(), began)),
            )
        began.write(checkpoint)
        return began

    def _partitions(self) -> dict[str, int]:
        partitions = {}
        for system in self.config.brokers:
            streams = [each.stream for each in self.config.inputs if each.stream.system == system]
            if streams:
                counts = JobTopics(self._client(system)).partitions(each.stream for each in streams)
                partitions.update({str(each): counts[each.stream] for each in streams})
        return partitions

    def _client(self, system: str) -> dict[str, str]:
        config = self.config
        login = {**config.producer[system], **config.consumer[system]}
        if config.brokers[system] == self.brokers and not _secured(login):
            login |= client_of(config.settings, self.brokers)
        kept = {key: text for key, text in login.items() if key in CLIENT_CONFIG}
        return {**kept, "bootstrap.servers": config.brokers[system]}

    def _plan(
        self, partitions: dict[str, int], control: ControlTopics, began: CheckpointStart
    ) -> Plan:
        config = self.config
        components = self._inputs(partitions, began)
        if config.application is None:
            done = self._task_component(list(components), partitions, control)
        else:
            levels = ApplicationPlan(config, partitions, began.tasks, control.coordinator)
            read = Custom(choose_task) if levels.reads_in_tasks() else Shuffle()
            done = levels.components(Input(each, DEFAULT_STREAM, read) for each in components)
        for name, component in done.items():
            if name in (*components, _TOPICS):
                raise FlowError(f"{config.name} has a part called {name} already: rename yours")
            components[name] = component
        for at, name in enumerate(reversed(done)):
            # One sink each: it runs where its records are made.
            sink = _TOPICS if at == 0 else f"{_TOPICS}-{name}"
            sent = (Input(name, DEFAULT_STREAM, Shuffle()),)
            components[sink] = PlanComponent(sink, Kind.SINK, RecordSink(), inputs=sent)
        target = {**config.consumer[config.target], **config.producer[config.target]}
        login = {key: text for key, text in target.items() if key in CLIENT_CONFIG}
        settings = {**config.settings, **{f"{KAFKA}{key}": text for key, text in login.items()}}
        if config.containers is not None:
            settings.setdefault("spark.sql.shuffle.partitions", str(config.containers))
        return Plan(
            name=config.name,
            components=components,
            guarantee=config.guarantee,
            dead_letters=config.dead_letters,
            retries=config.retries,
            settings=settings,
        )

    def _inputs(
        self, partitions: dict[str, int], began: CheckpointStart
    ) -> dict[str, PlanComponent]:
        components = {}
        for name, streams in _spouts(self.config).items():
            spout = self._spout(streams, partitions, began)
            outputs = {DEFAULT_STREAM: spout.fields}
            components[name] = PlanComponent(name, Kind.SPOUT, spout, outputs)
        return components

    def _task_component(
        self, spouts: list[str], partitions: dict[str, int], control: ControlTopics
    ) -> dict[str, PlanComponent]:
        config = self.config
        assert config.task is not None
        shared = {spout_name(each, broadcast=True) for each in config.brokers}
        inputs = tuple(
            Input(each, DEFAULT_STREAM, All() if each in shared else Custom(choose_task))
            for each in spouts
        )
        component = PlanComponent(
            name=config.task.__name__,
            kind=Kind.BOLT,
            work=TaskWork(config, control),
            outputs={DEFAULT_STREAM: RECORD_FIELDS},
            inputs=inputs,
            parallelism=_tasks(config, partitions),
            stateful=True,
            tick_seconds=None if config.window_ms is None else config.window_ms / 1_000,
            task_per_partition=True,
        )
        return {component.name: component}

    def _spout(
        self, streams: list[InputStream], partitions: dict[str, int], began: CheckpointStart
    ) -> TopicSpout:
        system = streams[0].stream.system
        starting: dict[str, dict[str, int]] = {}
        for each in streams:
            default = -2 if each.oldest else -1
            known = began.offsets.get(str(each.stream), {})
            starting[each.stream.stream] = {
                str(index): known.get(index, default)
                for index in range(partitions[str(each.stream)])
            }
        return TopicSpout(
            [each.stream.stream for each in streams],
            brokers=self.config.brokers[system],
            fields=RECORD_COLUMNS,
            starting=json.dumps(starting),
            options={f"{KAFKA}{key}": text for key, text in self._reading(system).items()},
        )

    def _reading(self, system: str) -> dict[str, str]:
        """Return the settings of a system's consumer. One that says nothing about security has its
        producer's; a second cluster without any is open, and gets no login of the first."""
        consumer = dict(self.config.consumer[system])
        if _secured(consumer):
            return consumer
        if _secured(self.config.producer[system]):
            return {**self.config.producer[system], **consumer}
        if self.config.brokers[system] != self.brokers:
            consumer["security.protocol"] = "PLAINTEXT"
        return consumer


def _secured(texts: Mapping[str, str]) -> bool:
    return any(map(is_security_key, texts))


def _spouts(config: JobConfig) -> dict[str, list[InputStream]]:
    """Return the inputs by spout; bootstrap and high-priority inputs first."""
    spouts: dict[str, list[InputStream]] = {}
    for each in sorted(config.inputs, key=lambda each: (not each.bootstrap, -each.priority)):
        name = spout_name(each.stream.system, broadcast=each.broadcast is not None)
        spouts.setdefault(name, []).append(each)
    return spouts


def _tasks(config: JobConfig, partitions: Mapping[str, int]) -> int:
    tasks = max(
        (partitions[str(each.stream)] for each in config.inputs if each.broadcast is None),
        default=1,
    )
    if tasks > _MAX_TASKS:
        raise FlowError(f"{config.name} would have {tasks} tasks: {_MAX_TASKS} are the most")
    return tasks


def _offsets(records: Mapping[bytes, bytes]) -> dict[str, dict[int, int]]:
    """Return where to continue each partition.

    Every task reads a broadcast partition: the lowest offset counts.
    """
    offsets: dict[str, dict[int, int]] = {}
    for key, value in records.items():
        source, progress = json.loads(key), json.loads(value)
        partitions = offsets.setdefault(source["stream"], {})
        index, offset = int(source["partition"]), int(progress["next"])
        partitions[index] = min(offset, partitions.get(index, offset))
    return offsets
