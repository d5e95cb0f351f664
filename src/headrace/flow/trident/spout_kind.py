"""The three kinds of Trident's spouts: what a repeated batch has, and which states it suits.

Spark writes down what a batch reads before it reads it, and repeats a batch that did not end.

    transactional       a repeated batch has the same tuples. A `TopicSpout` is of this kind: its
                        batch is a range of offsets. If records of the range are gone, it fails.
    opaque              every tuple is in one batch that ended, but a repeated batch may have other
                        tuples than before. A `TopicSpout` that leaves out records which are gone,
                        and any other source of Spark.
    non-transactional   a tuple may be in two batches, such as one that a spout in Python emits
                        again after `fail`.

Rule: a state must not promise more than its spouts allow. A transactional state passes over a
repeated batch, which is right only if the batch has the same tuples. An opaque one needs every
tuple in one batch.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.plan import PlanComponent
from headrace.flow.plan.setting import prefixed
from headrace.flow.storm.spout import Spout, TopicSpout
from headrace.flow.trident.state import Mode, StateFactory

_DATA_LOSS = "failOnDataLoss"


class SpoutKind(Enum):
    """What a repeated batch of a spout has; see above."""

    NON_TRANSACTIONAL = "non-transactional"
    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"

    @classmethod
    def of(cls, text: "str | SpoutKind") -> "SpoutKind":
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(each.value for each in cls)
            raise FlowError(f"a spout cannot be {text!r}: write {known}") from None


_SUITED = {
    Mode.NON_TRANSACTIONAL: frozenset(SpoutKind),
    Mode.TRANSACTIONAL: frozenset({SpoutKind.TRANSACTIONAL}),
    Mode.OPAQUE: frozenset({SpoutKind.TRANSACTIONAL, SpoutKind.OPAQUE}),
}


def with_kind(
    spout: Spout, given: "str | SpoutKind | None", settings: Mapping[str, str]
) -> tuple[Spout, SpoutKind]:
    """Return a spout of a kind: the one that was given, or its own.

    Args:
        settings: of the topology; they may let its spouts leave out records that are gone.

    Raises:
        FlowError: the spout cannot be of that kind.
    """
    own = _own_kind(spout, settings)
    if given is None:
        return spout, own
    kind = SpoutKind.of(given)
    if not isinstance(spout, TopicSpout):
        if own is SpoutKind.NON_TRANSACTIONAL and kind is not own:
            raise FlowError(
                f"a {type(spout).__name__} cannot be {kind.value}: it emits again what failed, so"
                " a tuple may be in two batches"
            )
        return spout, kind
    if kind is SpoutKind.TRANSACTIONAL:
        if own is SpoutKind.OPAQUE:
            raise FlowError(
                f"the spout on {', '.join(spout.topics)} cannot be transactional with"
                f" {_DATA_LOSS}=false: a repeated batch has no records that are gone by then;"
                " leave the option out, or write kind='opaque'"
            )
        return _with_option(spout, "true"), kind
    if kind is SpoutKind.OPAQUE and _data_loss(spout.options) is None:
        return _with_option(spout, "false"), kind
    return spout, kind


def checked(
    components: Mapping[str, PlanComponent], kinds: Mapping[str, SpoutKind]
) -> dict[str, PlanComponent]:
    """Return the components of a chain, whose states suit their spouts.

    A `TopicSpout` before a transactional state keeps its kind whatever the settings of a run say.

    Raises:
        FlowError: a state promises more than its spouts allow.
    """
    result = dict(components)
    for component in components.values():
        factory = getattr(component.work, "factory", None)
        if not isinstance(factory, StateFactory) or getattr(component.work, "asks_only", False):
            continue
        mode = Mode.of(factory.mode)
        for spout in _spouts(components, component):
            if kinds[spout] not in _SUITED[mode]:
                raise FlowError(_unsuited(component.name, mode, spout, kinds[spout]))
            work = result[spout].work
            if mode is Mode.TRANSACTIONAL and isinstance(work, TopicSpout):
                result[spout] = replace(result[spout], work=_with_option(work, "true"))
    return result


def _unsuited(state: str, mode: Mode, spout: str, kind: SpoutKind) -> str:
    why = (
        "a tuple may be in two batches"
        if kind is SpoutKind.NON_TRANSACTIONAL
        else "a repeated batch may have other tuples than before"
    )
    suited = [each.value for each in Mode if kind in _SUITED[each]]
    return (
        f"the state of {state} is {mode.value}, but the spout {spout} is {kind.value}: {why}; write"
        f" mode={' or '.join(map(repr, suited))}"
    )


def _spouts(components: Mapping[str, PlanComponent], component: PlanComponent) -> Iterator[str]:
    """Yield the spouts that a component gets tuples from, each once."""
    seen: set[str] = set()
    left = [each.component for each in component.inputs]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            if isinstance(components[name].work, Spout):
                yield name
            left += [each.component for each in components[name].inputs]


def _own_kind(spout: Spout, settings: Mapping[str, str]) -> SpoutKind:
    if not getattr(spout, "replayable", True):
        return SpoutKind.NON_TRANSACTIONAL
    if not isinstance(spout, TopicSpout):
        return SpoutKind.OPAQUE
    loses = _data_loss(spout.options)
    if loses is None:
        loses = _data_loss(prefixed(settings, "source."))
    return SpoutKind.OPAQUE if loses == "false" else SpoutKind.TRANSACTIONAL


def _data_loss(options: Mapping[str, Any]) -> str | None:
    """Return the value of the option; case does not matter in its name."""
    for name, text in options.items():
        if name.lower() == _DATA_LOSS.lower():
            return str(text).lower()
    return None


def _with_option(spout: TopicSpout, text: str) -> TopicSpout:
    changed = copy.copy(spout)
    others = {key: each for key, each in spout.options.items() if key.lower() != _DATA_LOSS.lower()}
    changed.options = {**others, _DATA_LOSS: text}
    return changed
