"""From the plan of an agent to its components, made and wired but not started."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.ingest.agent.registry import find_component
from headrace.ingest.channel import Channel
from headrace.ingest.channel_processor import ChannelProcessor
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
        processors: what runs the sinks, one thread each: groups, and sinks outside of groups.
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
    """Make everything that can be made, and say what is wrong with the rest.

    Args:
        keep: running channels of an earlier configuration that stay in use, with their events.
    """
    made = Assembly(plan.name, plan)
    for name, channel_plan in plan.channels.items():
        channel = (keep or {}).get(name) or _make(made, channel_plan)
        if channel is not None:
            assert isinstance(channel, Channel)
            made.channels[name] = channel
    for name, source_plan in plan.sources.items():
        _add_source(made, name, source_plan)
    for name, sink_plan in plan.sinks.items():
        _add_sink(made, name, sink_plan)
    grouped: set[str] = set()
    for group in plan.groups.values():
        _add_group(made, group)
        grouped.update(group.sinks)
    for name, sink in made.sinks.items():
        if name not in grouped:
            made.processors[name] = _single(sink)
    _join_ledgers(made)
    for idle in plan.idle:
        _make(made, idle)
    made.problems.sort(key=lambda problem: problem.line)
    return made


def _single(sink: Sink) -> SinkProcessor:
    from headrace.ingest.processors.default import DefaultSinkProcessor

    return DefaultSinkProcessor(sink.name, Settings.from_texts((), {}), [sink])


def _make(made: Assembly, plan: ComponentPlan, *wiring: object) -> Component | None:
    whose = f"{plan.kind} {plan.name}"
    try:
        kind = find_component(plan.kind, plan.type)
    except ConfigError as error:
        made.problems.append(Problem(plan.line, Severity.ERROR, f"{whose}: {error}"))
        return None
    known = {each.name for each in kind.SETTINGS}
    shared = {key: entry for key, entry in made.plan.audit.items() if key in known}
    settings, mistakes = Settings.read(kind.SETTINGS, {**shared, **plan.entries}, whose)
    for key in settings.unknown:
        hint = "".join(f"; did you mean {near}?" for near in nearest(key, kind.SETTINGS))
        message = f"{whose}: {key} has no effect{hint}"
        made.problems.append(Problem(plan.line_of(key), Severity.WARNING, message))
    component = None
    if not mistakes:
        try:
            component = kind(plan.name, settings, *wiring)
            component.agent = made.name
        except SettingError as error:
            mistakes.append(error)
        except ConfigError as error:
            made.problems.append(Problem(plan.line, Severity.ERROR, f"{whose}: {error}"))
    for mistake in mistakes:
        line = plan.line_of(mistake.key)
        made.problems.append(Problem(line, Severity.ERROR, f"{whose}: {mistake}"))
    return component


def _add_source(made: Assembly, name: str, plan: SourcePlan) -> None:
    channels = {each: made.channels[each] for each in plan.channels if each in made.channels}
    source = _make(made, plan.component)
    if source is None:
        return
    assert isinstance(source, Source)
    if len(channels) < len(plan.channels):
        lost = ", ".join(each for each in plan.channels if each not in channels)
        _error(made, plan.component, f"source {name} does not run: channel {lost} cannot be used")
        return
    selector = _make(made, plan.selector, channels)
    interceptors = [_make(made, each) for each in plan.interceptors]
    if selector is None or None in interceptors:
        return
    assert isinstance(selector, Selector)
    if not _batch_fits(made, plan.component, source, list(channels.values())):
        return
    checked = [each for each in interceptors if isinstance(each, Interceptor)]
    source.processor = ChannelProcessor(name, checked, selector)
    made.sources[name] = source


def _add_sink(made: Assembly, name: str, plan: SinkPlan) -> None:
    sink = _make(made, plan.component)
    channel = made.channels.get(plan.channel)
    if sink is None:
        return
    assert isinstance(sink, Sink)
    if channel is None:
        what = f"sink {name} does not run: channel {plan.channel} cannot be used"
        _error(made, plan.component, what)
        return
    if not _batch_fits(made, plan.component, sink, [channel]):
        return
    sink.channel = channel
    made.sinks[name] = sink


def _add_group(made: Assembly, plan: GroupPlan) -> None:
    sinks = [made.sinks[name] for name in plan.sinks if name in made.sinks]
    if not sinks:
        return
    processor = _make(made, plan.processor, sinks)
    if processor is None:
        for sink in sinks:
            del made.sinks[sink.name]
        return
    assert isinstance(processor, SinkProcessor)
    made.processors[plan.name] = processor


def _batch_fits(
    made: Assembly, plan: ComponentPlan, component: Source | Sink, channels: list[Channel]
) -> bool:
    """As Flume: a batch that its channel can never take is a mistake of the configuration."""
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
            made.problems.append(Problem(plan.line_of(key), Severity.ERROR, message))
            return False
    return True


def _join_ledgers(made: Assembly) -> None:
    """Give a source that asks for exactly-once the place where its position is kept: the one sink,
    or the channel itself, that writes topics with transactions (decision 0013)."""
    for name, source in list(made.sources.items()):
        if not isinstance(source, ReplayableSource) or not source.settings.flag("exactlyOnce"):
            continue
        plan = made.plan.sources[name]
        ledger = _ledger_of(made, plan)
        if isinstance(ledger, str):
            _error(made, plan.component, f"source {name} cannot deliver exactly once: {ledger}")
            del made.sources[name]
        else:
            source.ledger = ledger


def _ledger_of(made: Assembly, plan: SourcePlan) -> Ledger | str:
    """The ledger, or why there is none."""
    if len(plan.channels) != 1:
        return "it has several channels; give it one"
    if plan.selector.type.lower() != "replicating":
        return "it has a selector; leave that out"
    (channel_name,) = plan.channels
    others = [each for each, source in made.plan.sources.items() if channel_name in source.channels]
    if len(others) > 1:
        return f"channel {channel_name} has several sources; give it one of its own"
    channel = made.channels[channel_name]
    own: Ledger | None = getattr(channel, "ledger", None)
    if own is not None:
        return own
    if type(channel).__name__ != "MemoryChannel":
        return (
            f"channel {channel_name} keeps no position with its events; use a memory channel, or a "
            "Kafka channel with kafka.transactional.id"
        )
    sinks = [sink for sink in made.sinks.values() if sink.channel is channel]
    if len(sinks) != 1:
        return f"channel {channel_name} must have one sink and has {len(sinks)}"
    ledger: Ledger | None = getattr(sinks[0], "ledger", None)
    if ledger is None:
        return (
            f"sink {sinks[0].name} writes no transactions; use a Kafka sink with "
            "kafka.transactional.id"
        )
    return ledger


def _error(made: Assembly, plan: ComponentPlan, message: str) -> None:
    made.problems.append(Problem(plan.line, Severity.ERROR, message))
