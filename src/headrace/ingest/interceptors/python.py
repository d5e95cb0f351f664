"""The python interceptor: a function of the user."""

import importlib
from collections.abc import Callable

from headrace.ingest.event import Event, EventBatch
from headrace.ingest.interceptor import Interceptor
from headrace.ingest.settings import Settings, flag, text


class PythonInterceptor(Interceptor):
    """`function = module:name` is called with each `Event` and returns one, or None to drop it.

    With `batch = true` it is called with a `EventBatch` and returns one, which is faster.
    """

    SETTINGS = (
        text("function", "module:name of the function.", required=True),
        flag("batch", "Call it with a whole EventBatch.", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._function = _find(settings, settings.text("function"))
        self._whole = settings.flag("batch")

    def intercept(self, batch: EventBatch) -> EventBatch:
        if not self._whole:
            return super().intercept(batch)
        changed = self._function(batch)
        assert isinstance(changed, EventBatch), (
            "the function of an interceptor returns an EventBatch"
        )
        return changed

    def intercept_event(self, event: Event) -> Event | None:
        changed = self._function(event)
        assert changed is None or isinstance(changed, Event), (
            "the function of an interceptor returns an Event or None"
        )
        return changed


def _find(settings: Settings, written: str) -> Callable[[Event | EventBatch], object]:
    module_name, colon, attribute = written.partition(":")
    if not colon:
        raise settings.wrong("function", f"function {written!r} has no ':': write module:name")
    try:
        value = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise settings.wrong("function", f"function {written} does not exist: {error}") from None
    if not callable(value):
        raise settings.wrong("function", f"function {written} cannot be called")
    function: Callable[[Event | EventBatch], object] = value
    return function
