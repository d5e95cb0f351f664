"""What a user writes: a class with `process`, and what else it needs of Samza's interfaces."""

from headrace.flow.samza.collector import MessageCollector
from headrace.flow.samza.context import Context
from headrace.flow.samza.coordinator import TaskCoordinator
from headrace.flow.samza.envelope import IncomingMessageEnvelope


class StreamTask:
    """Implement `process`: it is called for each message of one partition, in the order of offsets.

    There is one object for each input partition number: the task of partition 3 gets partition 3 of
    every input, for ever. Its attributes are kept with its stores, because Spark may call it in
    another process next time: those that pickle are checkpointed, at most 1 MiB each, and those
    that do not (connections) are for `init` to make, in every process. `transient` names attributes
    that every process makes for itself although they would pickle, such as models.

    Example:
        class Upper(StreamTask):
            def process(self, envelope, collector, coordinator):
                collector.send(OutgoingMessageEnvelope("kafka.out", envelope.message.upper()))
    """

    transient: tuple[str, ...] = ()

    def process(
        self,
        envelope: IncomingMessageEnvelope,
        collector: MessageCollector,
        coordinator: TaskCoordinator,
    ) -> None:
        raise NotImplementedError


class InitableTask:
    """`init` is called once a process before the first message, and can read the stores."""

    def init(self, context: Context) -> None:
        raise NotImplementedError


class WindowableTask:
    """`window` is called every task.window.ms from the task's first message on."""

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        raise NotImplementedError


class ClosableTask:
    """`close` is called when the process does not need the object any more, if it is told."""

    def close(self) -> None:
        raise NotImplementedError
