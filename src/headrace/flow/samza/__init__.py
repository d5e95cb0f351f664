"""Jobs for Samza users: a `StreamTask` per input partition, or a `StreamApplication` of operators.

A name is loaded on first use.

    load                       Read a job from a `.properties` file, or from its keys.
    SamzaJob                   A job; `start` runs it.
    StreamTask                 Base class of tasks: `process` is called with every message.
    InitableTask               A task with `init`.
    WindowableTask             A task with `window`.
    ClosableTask               A task with `close`.
    IncomingMessageEnvelope    A message that a task receives.
    OutgoingMessageEnvelope    A message that a task sends.
    SystemStream               A topic of a system, such as `kafka.views`.
    MessageCollector           Sends messages.
    TaskCoordinator            Takes requests, such as `shutdown`.
    RequestScope               Whether a request is for one task or all.
    Context                    A task's configuration and stores.
    KeyValueStore              A task's store.
    Serde                      Base class of serdes.
    StreamApplication          Base class of applications: `describe` declares operators.
    ApplicationDescriptor      Gives an application its inputs, outputs and tables.
    MessageStream              Messages of an application; its methods add operators.
    OutputStream               A topic that an application sends to.
    Table                      A table that an application joins with.
    KV                         A message with a key.
    Windows                    Makes windows.
    WindowPane                 What a window emits.

Example:
    from headrace.flow.samza import OutgoingMessageEnvelope, StreamTask

    class Upper(StreamTask):
        def process(self, envelope, collector, coordinator):
            collector.send(OutgoingMessageEnvelope("kafka.out", envelope.message.upper()))
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "KV",
    "ApplicationDescriptor",
    "ClosableTask",
    "Context",
    "IncomingMessageEnvelope",
    "InitableTask",
    "KeyValueStore",
    "MessageCollector",
    "MessageStream",
    "OutgoingMessageEnvelope",
    "OutputStream",
    "RequestScope",
    "SamzaJob",
    "Serde",
    "StreamApplication",
    "StreamTask",
    "SystemStream",
    "Table",
    "TaskCoordinator",
    "WindowPane",
    "WindowableTask",
    "Windows",
    "load",
]

if TYPE_CHECKING:
    from headrace.flow.samza.application.message import KV
    from headrace.flow.samza.application.message_stream import MessageStream, OutputStream, Table
    from headrace.flow.samza.application.stream_application import (
        ApplicationDescriptor,
        StreamApplication,
    )
    from headrace.flow.samza.application.window import WindowPane, Windows
    from headrace.flow.samza.collector import MessageCollector
    from headrace.flow.samza.context import Context
    from headrace.flow.samza.coordinator import RequestScope, TaskCoordinator
    from headrace.flow.samza.envelope import (
        IncomingMessageEnvelope,
        OutgoingMessageEnvelope,
        SystemStream,
    )
    from headrace.flow.samza.job import SamzaJob, load
    from headrace.flow.samza.serde import Serde
    from headrace.flow.samza.store import KeyValueStore
    from headrace.flow.samza.task import ClosableTask, InitableTask, StreamTask, WindowableTask
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "WindowPane": "headrace.flow.samza.application.window",
            "Windows": "headrace.flow.samza.application.window",
            "KV": "headrace.flow.samza.application.message",
            "Table": "headrace.flow.samza.application.message_stream",
            "OutputStream": "headrace.flow.samza.application.message_stream",
            "MessageStream": "headrace.flow.samza.application.message_stream",
            "ApplicationDescriptor": "headrace.flow.samza.application.stream_application",
            "StreamApplication": "headrace.flow.samza.application.stream_application",
            "ClosableTask": "headrace.flow.samza.task",
            "Context": "headrace.flow.samza.context",
            "IncomingMessageEnvelope": "headrace.flow.samza.envelope",
            "InitableTask": "headrace.flow.samza.task",
            "KeyValueStore": "headrace.flow.samza.store",
            "MessageCollector": "headrace.flow.samza.collector",
            "OutgoingMessageEnvelope": "headrace.flow.samza.envelope",
            "RequestScope": "headrace.flow.samza.coordinator",
            "SamzaJob": "headrace.flow.samza.job",
            "Serde": "headrace.flow.samza.serde",
            "StreamTask": "headrace.flow.samza.task",
            "SystemStream": "headrace.flow.samza.envelope",
            "TaskCoordinator": "headrace.flow.samza.coordinator",
            "WindowableTask": "headrace.flow.samza.task",
            "load": "headrace.flow.samza.job",
        },
    )
