"""Samza's StreamApplication: a user's class that describes streams and operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.flow.error import FlowError
from headrace.flow.samza.application.graph import OperatorGraph
from headrace.flow.samza.application.message_stream import MessageStream, OutputStream, Table
from headrace.flow.samza.application.operator import InputOperator, SendToOperator
from headrace.flow.samza.envelope import SystemStream


class StreamApplication:
    """Base class of applications. Implement `describe`: it is called once, before the start.

    Example:
        class Pages(StreamApplication):
            def describe(self, app):
                views = app.input_stream("kafka.views")
                counted = views.partition_by(lambda view: view["page"]).window(
                    Windows.keyed_tumbling_window(
                        lambda view: view.key, 60, lambda: 0, lambda view, n: n + 1
                    )
                )
                totals = counted.map(lambda pane: KV(pane.key, {"views": pane.message}))
                totals.send_to(app.output_stream("kafka.page-views"))
    """

    def describe(self, app: "ApplicationDescriptor") -> None:
        """Declare inputs, operators and outputs."""
        raise NotImplementedError


class ApplicationDescriptor:
    """Collects what `StreamApplication.describe` declares.

    Attributes:
        config: all keys of the job, the user's own ones included, as texts.
    """

    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        self.graph = OperatorGraph()
        self.inputs: dict[str, int] = {}
        self._tables: set[str] = set()

    def input_stream(self, stream: str, *, keyed: bool = False) -> MessageStream:
        """Return the messages of a topic, `kafka.views`, or of a stream that the keys `streams.*`
        declare. Its serdes are those of the job's configuration.

        Args:
            keyed: whether messages are `KV(key, value)`, with the record's key; by default they
                are values.
        """
        if not isinstance(stream, str):
            raise FlowError(f"input_stream takes a name such as 'kafka.views', not {stream!r}")
        if stream in self.inputs:
            raise FlowError(f"{stream} is an input twice: use its stream twice instead")
        number = self.graph.add(InputOperator(keyed=keyed), (), stream)
        self.inputs[stream] = number
        return MessageStream(self.graph, number)

    def output_stream(self, stream: str) -> OutputStream:
        """Return a topic, `kafka.counts`, for `MessageStream.send_to`."""
        if not isinstance(stream, str):
            raise FlowError(f"output_stream takes a name such as 'kafka.counts', not {stream!r}")
        return OutputStream(stream)

    def table(self, name: str) -> Table:
        """Return a new table, for `MessageStream.send_to` and `MessageStream.join`."""
        if name in self._tables:
            raise FlowError(f"two tables are called {name!r}: each has a name of its own")
        self._tables.add(name)
        return Table(name)


@dataclass(frozen=True, slots=True)
class Application:
    """An application that was described, and whose streams the configuration knows.

    Attributes:
        inputs: the number of the operator of each input, by `system.topic`.
        outputs: the streams that it sends to.
    """

    kind: type[StreamApplication]
    graph: OperatorGraph
    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: tuple[SystemStream, ...] = ()

    @property
    def name(self) -> str:
        return self.kind.__name__


@dataclass(frozen=True, slots=True)
class Description:
    """What an application declared; its streams are names.

    Attributes:
        inputs: the number of the operator of each input.
        outputs: the names of the outputs.
    """

    kind: type[StreamApplication]
    graph: OperatorGraph
    inputs: Mapping[str, int]
    outputs: tuple[str, ...]

    def resolved(self, streams: Mapping[str, SystemStream]) -> Application:
        """Return the application with the topics of its streams.

        Args:
            streams: the topic of each name that the application uses.
        """
        for each in _senders(self.graph):
            each.system_stream = streams[each.stream]
        inputs = {str(streams[text]): number for text, number in self.inputs.items()}
        outputs = tuple(streams[each] for each in self.outputs)
        return Application(self.kind, self.graph, inputs, outputs)


def describe(kind: type[StreamApplication], config: dict[str, str]) -> Description:
    """Return what an application declares.

    Raises:
        FlowError: it reads nothing, or an operator is wrong.
    """
    app = ApplicationDescriptor(config)
    kind().describe(app)
    if not app.inputs:
        raise FlowError(
            f"{kind.__name__} reads nothing: let describe begin with"
            " app.input_stream('kafka.TOPIC')"
        )
    app.graph.levels()  # raises for a table that cannot be
    outputs = tuple(dict.fromkeys(each.stream for each in _senders(app.graph)))
    return Description(kind, app.graph, app.inputs, outputs)


def _senders(graph: OperatorGraph) -> list[SendToOperator]:
    return [each for each in graph.operators if isinstance(each, SendToOperator)]
