"""The flow of an agent as text."""

from collections.abc import Iterator

from headrace.ingest.config.plan import AgentPlan, SinkPlan, SourcePlan


def draw(plan: AgentPlan) -> str:
    """Return a line per connection from a source through a channel to a sink.

    Example:
        agent a1
          r1 (netcat)  --[host]-->  c1 (memory)  -->  k1 (logger)
    """
    rows = [row for channel in plan.channels for row in _rows(plan, channel)]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1, 2)]
    lines = [f"agent {plan.name}"]
    for left, middle, right in rows:
        line = f"  {left.ljust(widths[0])}  {middle.ljust(widths[1])}  {right}"
        lines.append(line.rstrip())
    lines += (
        f"  group {group.name} ({group.processor.type}): {' '.join(group.sinks)}"
        for group in plan.groups.values()
    )
    return "\n".join(lines)


def _rows(plan: AgentPlan, channel: str) -> Iterator[tuple[str, str, str]]:
    """Yield rows with the sources of a channel on the left and its sinks on the right."""
    sources = [each for each in plan.sources.values() if channel in each.channels]
    sinks = [each for each in plan.sinks.values() if each.channel == channel]
    middle = f"{channel} ({plan.channels[channel].type})"
    for number in range(max(len(sources), len(sinks), 1)):
        left = _source(sources[number], channel) if number < len(sources) else ""
        right = _sink(sinks[number]) if number < len(sinks) else ""
        yield left, middle if number == 0 else "", right


def _source(source: SourcePlan, channel: str) -> str:
    through = [each.name for each in source.interceptors]
    selector = source.selector
    if selector.type.lower() == "multiplexing":
        header = selector.entries.get("header")
        values = [
            key.removeprefix("mapping.")
            for key, entry in selector.entries.items()
            if key.startswith("mapping.") and channel in entry.value.split()
        ]
        default = selector.entries.get("default")
        if default is not None and channel in default.value.split():
            values.append("*")
        through.append(f"{header.value if header else 'header'}={'|'.join(values)}")
    arrow = f"--[{' '.join(through)}]-->" if through else "-->"
    return f"{source.component.name} ({source.component.type})  {arrow}"


def _sink(sink: SinkPlan) -> str:
    return f"-->  {sink.component.name} ({sink.component.type})"
