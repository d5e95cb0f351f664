"""Samza's interfaces of a task: a user's class derives from `StreamTask` and others."""

from headrace.flow.samza.collector import MessageCollector
from headrace.flow.samza.context import Context
from headrace.flow.samza.coordinator import TaskCoordinator
from headrace.flow.samza.envelope import IncomingMessageEnvelope


class StreamTask:
    """Base class of tasks. Implement `process`: it is called for each message of one partition, in
    the order of offsets.

    There is one object per input partition number: the task of partition 3 always reads partition 3
    of every input. Spark may call it in another process next time, so its attributes are kept with
    its stores: those that pickle are checkpointed, at most 1 MiB each. Those that do not, such as
    connections, must be made by `init` in every process. `transient` names attributes that every
    process makes for itself although they would pickle, such as models.

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
        """Process one message."""
        raise NotImplementedError


class InitableTask:
    """A task with `init`, which is called once per process before the first message."""

    def init(self, context: Context) -> None:
        """Prepare the task; the stores can be read."""
        raise NotImplementedError


class WindowableTask:
    """A task with `window`, which is called every task.window.ms after its first message."""

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Do what is due, such as sending totals."""
        raise NotImplementedError


class ClosableTask:
    """A task with `close`, which is called when the process drops it, unless it is killed."""

    def close(self) -> None:
        """Release what `init` made."""
        raise NotImplementedError
