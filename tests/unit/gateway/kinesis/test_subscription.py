"""A subscription that is taken over ends, whether its client reads or not."""

import asyncio
import time
from typing import Any, cast

import pytest

from headrace.client.settings import ClientSettings
from headrace.gateway.http.asgi import Message
from headrace.gateway.kinesis import app as app_module
from headrace.gateway.kinesis.app import KinesisApp
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.subscription import Subscription


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_one_that_is_not_read_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "TAKE_OVER_SECONDS", 0.05)

    async def test() -> None:
        app = KinesisApp(KinesisSettings(client=ClientSettings.of({})))
        nothing = cast(Any, None)
        subscription = Subscription(app.service, nothing, nothing, 0, time.monotonic())
        blocked = asyncio.Event()

        async def send(message: Message) -> None:
            if "body" in message:
                blocked.set()
                await never()

        pushing = asyncio.ensure_future(app._push(subscription, {}, never, send))
        await blocked.wait()
        await asyncio.to_thread(subscription.end)
        await asyncio.wait_for(pushing, 60)

    asyncio.run(test())
