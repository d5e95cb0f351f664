"""A schema registry without a topic: what a write plans is applied to its state at once."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.gateway.access.rights import Rights
from headrace.gateway.registry.batch import write_parts
from headrace.gateway.registry.checker import SchemaChecker
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.operation.table import Route, find_routes
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.record import write_json, write_key
from headrace.gateway.registry.state.registry_state import LogRecord, Outcome, RegistryState
from headrace.gateway.registry.view import RegistryView

_ALL_RIGHTS = Rights(write=("",))


class MemoryRegistry:
    """Serves routes as `RegistryService` does. `log` has every record that was written."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.view = RegistryView(lambda step: step(self.state), SchemaChecker())
        self.log: list[LogRecord] = []

    def write(self, route: Route, request: Request) -> tuple[Any, int]:
        """Make a write; return its answer and the offset of its last record."""
        if route.split is not None:
            single = replace(route, split=None)
            return write_parts(route.split(request), lambda part: self.write(single, part))
        plan = route.serve(self.view.for_request(), request)
        for each in plan.records:
            value = None if each.value is None else write_json(each.value)
            record = LogRecord(len(self.log), write_key(each.key), value, ts=0)
            assert self.state.apply(record) is Outcome.APPLIED
            self.log.append(record)
        return plan.answer, len(self.log) - 1

    def stop(self) -> None: ...

    def call(
        self, method: str, path: str, body: Any = None, rights: Rights = _ALL_RIGHTS, **query: str
    ) -> Any:
        """Send a request and return its answer."""
        match = find_routes(path.strip("/").split("/"))
        route, names = match.routes[method]
        request = Request(method, names, query, body, match.context, rights)
        if route.writes:
            return self.write(route, request)[0]
        return route.serve(self.view.for_request(), request)

    def code(self, *arguments: Any, **query: str) -> int:
        """Send a request that is refused, and return the code."""
        with pytest.raises(RegistryError) as refusal:
            self.call(*arguments, **query)
        return refusal.value.code

    def register(self, subject: str, text: str, **members: Any) -> Any:
        return self.call("POST", f"/subjects/{subject}/versions", {"schema": text, **members})
