"""Windows of an application: tumbling ones, and sessions of a key.

Rule 1: a window closes when its end has passed: on the clock, as in Samza, or with `timestamp` in
        the messages' own time, which is the latest time so far less the lag.
Rule 2: a message whose window has closed in an earlier batch is late, and is dropped. Messages of
        its own batch close nothing, so it does not matter how Spark divides them.
Rule 3: with a fold, a window keeps one value, and a session too by the clock. In the messages' own
        time a session keeps its messages until it closes, because a message that comes late can
        join two sessions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.samza.application.message import pickled, state_key, unpickled
from headrace.flow.samza.application.operator import (
    Function,
    Operator,
    OperatorCall,
    OperatorState,
)

_NEVER = -(2**62)
_MAX_CLOCK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WindowPane:
    """What a window emits when it closes.

    Attributes:
        key: the key of its messages; None without one.
        message: the result of the fold, or the list of messages.
        start_ms, end_ms: its bounds; of a session, the times of its first and last message.
    """

    key: Any
    message: Any
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Window:
    """A window as `MessageStream.window` takes it, made by `Windows`."""

    key: Function | None
    length_ms: int
    session: bool
    init: Callable[[], Any] | None
    fold: Function | None
    timestamp: Function | None
    lag_ms: int

    def __post_init__(self) -> None:
        if self.length_ms < 1 or self.lag_ms < 0:
            raise FlowError("a window lasts a millisecond or longer, and its lag is none or longer")
        if (self.init is None) != (self.fold is None):
            raise FlowError(
                "a window's fold needs init, a function that returns the first value, and init a"
                " fold: write both or none"
            )
        if self.timestamp is None and self.lag_ms:
            raise FlowError("a window's lag is one of the messages' own time: give timestamp too")
        for name in ("key", "init", "fold", "timestamp"):
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise FlowError(f"a window's {name} is {given!r}, which is no function")


class Windows:
    """Makes windows.

    Args:
        key: a function of a message: the key of its window.
        seconds: how long a window lasts; of a session, the pause that ends it.
        init: a function without arguments: the first value of a window. Without it a window emits
            the list of its messages.
        fold: a function of a message and the value so far: the new value.
        timestamp: a function of a message: its time in milliseconds. Without it, the clock counts.
        lag_seconds: how long to wait for messages that come out of order.

    Example:
        Windows.keyed_tumbling_window(lambda view: view["page"], 60, lambda: 0, lambda _, n: n + 1)
    """

    @staticmethod
    def tumbling_window(
        seconds: float,
        init: Callable[[], Any] | None = None,
        fold: Function | None = None,
        *,
        timestamp: Function | None = None,
        lag_seconds: float = 0.0,
    ) -> Window:
        """Return windows of so many seconds over all messages of a task."""
        return Window(None, _ms(seconds), False, init, fold, timestamp, _ms(lag_seconds))

    @staticmethod
    def keyed_tumbling_window(
        key: Function,
        seconds: float,
        init: Callable[[], Any] | None = None,
        fold: Function | None = None,
        *,
        timestamp: Function | None = None,
        lag_seconds: float = 0.0,
    ) -> Window:
        """Return windows of so many seconds, one for each key."""
        return Window(key, _ms(seconds), False, init, fold, timestamp, _ms(lag_seconds))

    @staticmethod
    def keyed_session_window(
        key: Function,
        seconds: float,
        init: Callable[[], Any] | None = None,
        fold: Function | None = None,
        *,
        timestamp: Function | None = None,
        lag_seconds: float = 0.0,
    ) -> Window:
        """Return the sessions of each key: messages without a pause of so many seconds."""
        return Window(key, _ms(seconds), True, init, fold, timestamp, _ms(lag_seconds))


class WindowOperator(Operator):
    """Keeps the open windows of a task in its state.

    An entry of the state, found by key (and start of a tumbling window), is a list of `_Open`. Of
    a tumbling window it has one element.
    """

    kind = "window"
    stateful = True

    def __init__(self, window: Window) -> None:
        super().__init__(window.key, window.init, window.fold, window.timestamp)
        self.window = window

    @property
    def clock_seconds(self) -> float | None:
        if self.window.timestamp is not None:
            return None
        return min(self.window.length_ms / 1_000, _MAX_CLOCK_SECONDS)

    def apply(self, message: Any, port: int, call: OperatorCall) -> Iterable[Any]:
        window, state = self.window, call.state(self.name)
        at_ms = call.now_ms
        if window.timestamp is not None:
            at_ms = int(window.timestamp(message))
            if at_ms > state.get("latest", default=_NEVER):
                state.put("latest", value=at_ms)
        key = None if window.key is None else state_key(window.key(message), self.name)
        start = at_ms if window.session else at_ms // window.length_ms * window.length_ms
        if start + window.length_ms <= state.get("watermark", default=_NEVER):
            return ()
        entry = (key,) if window.session else (key, start)
        live = call.scratch.setdefault(self.name, {})
        if entry not in live:
            kept = state.get("open", *entry)
            live[entry] = [] if kept is None else unpickled(kept)
        self._add(live[entry], message, at_ms, start)
        return ()

    def due(self, call: OperatorCall) -> Iterable[tuple[WindowPane, int]]:
        state = call.state(self.name)
        self._save(call.scratch.pop(self.name, {}), state)
        watermark = call.now_ms
        if self.window.timestamp is not None:
            watermark = state.get("latest", default=_NEVER) - self.window.lag_ms
            if watermark <= state.get("watermark", default=_NEVER):
                return ()
            state.put("watermark", value=watermark)
        next_end = state.get("next_end")
        if next_end is None or watermark < next_end:
            return ()
        return self._close(state, watermark)

    def _add(self, opened: "list[_Open]", message: Any, at_ms: int, start: int) -> None:
        near = [each for each in opened if self._touches(each, at_ms)]
        opened[:] = [each for each in opened if not self._touches(each, at_ms)]
        first = min([start, *(each[0] for each in near)])
        last = max([at_ms, *(each[1] for each in near)])
        if self._folds_at_once:
            assert self.window.init is not None and self.window.fold is not None
            value = near[-1][2] if near else self.window.init()
            value = self.window.fold(message, value)
        else:
            value = near[0][2] if near else []
            for each in near[1:]:
                value += each[2]
            value.append((at_ms, message))
        opened.append((first, last, value))
        opened.sort(key=_first)

    def _touches(self, opened: "_Open", at_ms: int) -> bool:
        length = self.window.length_ms
        return not self.window.session or opened[0] - length < at_ms < opened[1] + length

    def _save(self, live: "dict[tuple[Any, ...], list[_Open]]", state: OperatorState) -> None:
        if not live:
            return
        for entry, opened in live.items():
            state.put("open", *entry, value=pickled(opened))
        ends = [self._end(each) for opened in live.values() for each in opened]
        state.put("next_end", value=min([*ends, state.get("next_end", default=ends[0])]))

    def _close(self, state: OperatorState, watermark: int) -> list[tuple[WindowPane, int]]:
        panes = []
        next_end = None
        for entry in state.keys("open"):
            opened: list[_Open] = unpickled(state.get("open", *entry))
            left = [each for each in opened if self._end(each) > watermark]
            closed = (each for each in opened if self._end(each) <= watermark)
            panes += [self._pane(entry[0], each) for each in closed]
            if not left:
                state.delete("open", *entry)
                continue
            if len(left) < len(opened):
                state.put("open", *entry, value=pickled(left))
            next_end = min([*map(self._end, left), *([] if next_end is None else [next_end])])
        if next_end is None:
            state.delete("next_end")
        else:
            state.put("next_end", value=next_end)
        # The order of keys in a state is not the same after a restart.
        panes.sort(key=lambda each: (each.end_ms, repr(each.key)))
        return [(each, each.end_ms) for each in panes]

    def _pane(self, key: Any, opened: "_Open") -> WindowPane:
        first, last, value = opened
        end = last if self.window.session else first + self.window.length_ms
        if not self._folds_at_once:
            messages = [message for _, message in sorted(value, key=_first)]
            value = messages
            if self.window.fold is not None:
                assert self.window.init is not None
                value = self.window.init()
                for message in messages:
                    value = self.window.fold(message, value)
        return WindowPane(key, value, first, end)

    @property
    def _folds_at_once(self) -> bool:
        window = self.window
        return window.fold is not None and not (window.session and window.timestamp is not None)

    def _end(self, opened: "_Open") -> int:
        first, last, _ = opened
        return (last if self.window.session else first) + self.window.length_ms


_Open = tuple[int, int, Any]
"""First and last time, and the value of the fold or the messages with their times."""


def _first(pair: Any) -> int:
    first: int = pair[0]
    return first


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)
