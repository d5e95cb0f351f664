"""Which questions go to the registry, and how long a batch waits for them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from headrace.broker.schema import registered_schemas
from headrace.broker.schema.registered_schemas import RegisteredSchemas
from headrace.broker.schema.schema_lookup import SchemaQuestion
from headrace.model.error import HeadraceError, ServiceUnavailable
from headrace.model.topic_config import SUBJECT_NAME_STRATEGIES


class Registry:
    """Has every schema, unless it is set to fail; answers when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.fails: Exception | None = None
        self.asked: list[str] = []

    def knows(self, topic: str, head: bytes, *, key: bool, strategy: str) -> bool:
        self.asked.append(topic)
        self.go.wait(90)
        if self.fails is not None:
            raise self.fails
        return True

    def close(self) -> None:
        self.go.set()


def question(topic: str, number: int = 0) -> SchemaQuestion:
    head = b"\0" + number.to_bytes(4, "big")
    return SchemaQuestion(topic, head, False, SUBJECT_NAME_STRATEGIES[0])


def run(scenario: Callable[[RegisteredSchemas, Registry], Awaitable[None]]) -> None:
    async def main() -> None:
        registry = Registry()
        register = RegisteredSchemas(asyncio.get_running_loop(), registry, 1_000)
        try:
            async with asyncio.timeout(60):
                await scenario(register, registry)
        finally:
            register.close()

    asyncio.run(main())


def test_a_batch_waits_from_when_its_question_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that hangs does not hold each new batch for the whole time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        registry = Registry()
        register = RegisteredSchemas(loop, registry, 1_000)
        register.ask(question("t"))
        real = loop.time
        monkeypatch.setattr(loop, "time", lambda: real() + 100.0)
        try:
            async with asyncio.timeout(60):
                both = [question("t"), question("t", 1)]
                assert await register.resolve(both, 60.0) == dict.fromkeys(both)
        finally:
            register.close()

    asyncio.run(main())


def test_one_question_that_fails_stops_no_other() -> None:
    async def scenario(register: RegisteredSchemas, registry: Registry) -> None:
        registry.go.set()
        registry.fails = HeadraceError("that is no answer")
        assert await register.ask(question("broken")) is None
        registry.fails = None
        assert await register.ask(question("other")) is True

    run(scenario)


def test_while_the_registry_is_down_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_schemas, "_PAUSE_SECONDS", 600.0)

    async def scenario(register: RegisteredSchemas, registry: Registry) -> None:
        registry.fails = ServiceUnavailable("it is down")
        waiting = [register.ask(question("t", number)) for number in range(50)]
        registry.go.set()
        assert await asyncio.gather(*waiting) == [None] * 50
        # Those that the four threads had taken already, and none of the others.
        assert len(registry.asked) <= 4

    run(scenario)


def test_a_topic_does_not_take_the_places_of_others() -> None:
    async def scenario(register: RegisteredSchemas, registry: Registry) -> None:
        many = [register.ask(question("many", number)) for number in range(101)]
        other = register.ask(question("other"))
        assert [each.done() for each in many] == [False] * 100 + [True]
        assert await many[100] is None
        registry.go.set()
        assert await other is True
        assert await asyncio.gather(*many[:100]) == [True] * 100
        assert await register.ask(question("many", 100)) is True

    run(scenario)
