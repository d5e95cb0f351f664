"""Creates the components of an agent from its plan, and connects them, without starting them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.ingest.agent.component_type import find_component
from headrace.ingest.channel import Channel
from headrace.ingest.channel_processor import ChannelProcessor
from headrace.ingest.channels.memory import MemoryChannel
from headrace.ingest.component import Component
from headrace.ingest.config.plan import (
    AgentPlan,
    ComponentPlan,
    GroupPlan,
    Problem,
    Severity,
    SinkPlan,
    SourcePlan,
)
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.ledger import Ledger
from headrace.ingest.selector import Selector
from headrace.ingest.settings import SettingError, Settings, nearest
from headrace.ingest.sink import Sink
from headrace.ingest.sink_processor import SinkProcessor
from headrace.ingest.source import ReplayableSource, Source
from headrace.model.error import ConfigError


@dataclass(slots=True)
class Assembly:
    """The components of an agent.

    Attributes:
        processors: run the sinks, one thread each: one per group, and one per sink without a group.
    """

    name: str
    plan: AgentPlan
    channels: dict[str, Channel] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    processors: dict[str, SinkProcessor] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def errors(self) -> list[Problem]:
        return [each for each in self.problems if each.severity is Severity.ERROR]


def assemble(plan: AgentPlan, keep: Mapping[str, Channel] | None = None) -> Assembly:
    """Create the components that the plan describes correctly, and collect the mistakes of the
    others.

    Args:
        keep: running channels of an earlier configuration that stay in use, with their events.
    """
    assembly = Assembly(plan.name, plan)
    for name, channel_plan in plan.channels.items():
        channel = (keep or {}).get(name) or _create(assembly, channel_plan)
        if channel is not None:
            assert isinstance(channel, Channel)
            assembly.channels[name] = channel
    for name, source_plan in plan.sources.items():
        _add_source(assembly, name, source_plan)
    for name, sink_plan in plan.sinks.items():
        _add_sink(assembly, name, sink_plan)
    grouped: set[str] = set()
    for group in plan.groups.values():
        _add_group(assembly, group)
        grouped.update(group.sinks)
    for name, sink in assembly.sinks.items():
        if name not in grouped:
            assembly.processors[name] = _single(sink)
    _connect_ledgers(assembly)
    for idle in plan.idle:
        _create(assembly, idle)
    assembly.problems.sort(key=lambda problem: problem.line)
    return assembly


def _single(sink: Sink) -> SinkProcessor:
    from headrace.ingest.processors.default import DefaultSinkProcessor

    return DefaultSinkProcessor(sink.name, Settings.from_texts((), {}), [sink])


def _create(assembly: Assembly, plan: ComponentPlan, *wiring: object) -> Component | None:
    whose = f"{plan.kind} {plan.name}"
    try:
        kind = find_component(plan.kind, plan.type)
    except ConfigError as error:
        assembly.problems.append(Problem(plan.line, Severity.ERROR, f"{whose}: {error}"))
        return None
    known = {each.name for each in kind.SETTINGS}
    shared = {key: entry for key, entry in assembly.plan.audit.items() if key in known}
    settings, mistakes = Settings.read(kind.SETTINGS, {**shared, **plan.entries}, whose)
    for key in settings.unknown:
        hint = "".join(f"; did you mean {near}?" for near in nearest(key, kind.SETTINGS))
        message = f"{whose}: {key} has no effect{hint}"
        assembly.problems.append(Problem(plan.line_of(key), Severity.WARNING, message))
    component = None
    if not mistakes:
        try:
            component = kind(plan.name, settings, *wiring)
            component.agent = assembly.name
        except SettingError as error:
            mistakes.append(error)
        except ConfigError as error:
            assembly.problems.append(Problem(plan.line, Severity.ERROR, f"{whose}: {error}"))
    for mistake in mistakes:
        line = plan.line_of(mistake.key)
        assembly.problems.append(Problem(line, Severity.ERROR, f"{whose}: {mistake}"))
    return component


def _add_source(assembly: Assembly, name: str, plan: SourcePlan) -> None:
    channels = {
        each: assembly.channels[each] for each in plan.channels if each in assembly.channels
    }
    source = _create(assembly, plan.component)
    if source is None:
        return
    assert isinstance(source, Source)
    if len(channels) < len(plan.channels):
        unusable = ", ".join(each for each in plan.channels if each not in channels)
        _error(
            assembly,
            plan.component,
            f"source {name} does not run: channel {unusable} cannot be used",
        )
        return
    selector = _create(assembly, plan.selector, channels)
    interceptors = [_create(assembly, each) for each in plan.interceptors]
    if selector is None or None in interceptors:
        return
    assert isinstance(selector, Selector)
    if not _batch_fits(assembly, plan.component, source, list(channels.values())):
        return
    usable = [each for each in interceptors if isinstance(each, Interceptor)]
    source.processor = ChannelProcessor(name, usable, selector)
    assembly.sources[name] = source


def _add_sink(assembly: Assembly, name: str, plan: SinkPlan) -> None:
    sink = _create(assembly, plan.component)
    channel = assembly.channels.get(plan.channel)
    if sink is None:
        return
    assert isinstance(sink, Sink)
    if channel is None:
        what = f"sink {name} does not run: channel {plan.channel} cannot be used"
        _error(assembly, plan.component, what)
        return
    if not _batch_fits(assembly, plan.component, sink, [channel]):
        return
    sink.channel = channel
    assembly.sinks[name] = sink


def _add_group(assembly: Assembly, plan: GroupPlan) -> None:
    sinks = [assembly.sinks[name] for name in plan.sinks if name in assembly.sinks]
    if not sinks:
        return
    processor = _create(assembly, plan.processor, sinks)
    if processor is None:
        for sink in sinks:
            del assembly.sinks[sink.name]
        return
    assert isinstance(processor, SinkProcessor)
    assembly.processors[plan.name] = processor


def _batch_fits(
    assembly: Assembly, plan: ComponentPlan, component: Source | Sink, channels: list[Channel]
) -> bool:
    """Return whether the channels can hold a batch of the component. A batch that never fits is a
    mistake in the configuration, as in Flume."""
    key = component.BATCH_SETTING
    if key is None or key not in {each.name for each in component.SETTINGS}:
        return True
    size = component.settings.number(key)
    for channel in channels:
        if size > channel.transaction_capacity:
            message = (
                f"{plan.kind} {plan.name}: its {key} {size} is more than the transactionCapacity "
                f"{channel.transaction_capacity} of channel {channel.name}: lower the one or raise "
                "the other"
            )
            assembly.problems.append(Problem(plan.line_of(key), Severity.ERROR, message))
            return False
    return True


def _connect_ledgers(assembly: Assembly) -> None:
    """Give a source with `exactlyOnce` the ledger of the sink, or of the channel, that writes
    topics with transactions (decision 0013)."""
    for name, source in list(assembly.sources.items()):
        if not isinstance(source, ReplayableSource) or not source.settings.flag("exactlyOnce"):
            continue
        plan = assembly.plan.sources[name]
        ledger = _ledger_of(assembly, plan)
        if isinstance(ledger, str):
            _error(assembly, plan.component, f"source {name} cannot deliver exactly once: {ledger}")
            del assembly.sources[name]
        else:
            source.ledger = ledger
            _trust_headers(assembly, plan)


def _trust_headers(assembly: Assembly, plan: SourcePlan) -> None:
    """Tell the sinks of an exactly-once source that their events are those of this source alone."""
    (channel,) = plan.channels
    for sink in assembly.sinks.values():
        sink.trusts_headers |= sink.channel is assembly.channels[channel]


def _ledger_of(assembly: Assembly, plan: SourcePlan) -> Ledger | str:
    """Return the ledger for a source, or why there is none."""
    if len(plan.channels) != 1:
        return "it has several channels; use one"
    if plan.selector.type.lower() != "replicating":
        return "it has a selector; leave that out"
    (channel_name,) = plan.channels
    sources = [
        each for each, source in assembly.plan.sources.items() if channel_name in source.channels
    ]
    if len(sources) > 1:
        return f"channel {channel_name} has several sources; use a channel for this source alone"
    channel = assembly.channels[channel_name]
    own: Ledger | None = getattr(channel, "ledger", None)
    if own is not None:
        return own
    if not isinstance(channel, MemoryChannel):
        return (
            f"channel {channel_name} stores no position with its events; use a memory channel, or "
            "a Kafka channel with kafka.transactional.id"
        )
    sinks = [sink for sink in assembly.sinks.values() if sink.channel is channel]
    if len(sinks) != 1:
        return f"channel {channel_name} must have one sink and has {len(sinks)}"
    ledger: Ledger | None = getattr(sinks[0], "ledger", None)
    if ledger is None:
        return (
            f"sink {sinks[0].name} writes no transactions; use a Kafka sink with "
            "kafka.transactional.id"
        )
    return ledger


def _error(assembly: Assembly, plan: ComponentPlan, message: str) -> None:
    assembly.problems.append(Problem(plan.line, Severity.ERROR, message))
