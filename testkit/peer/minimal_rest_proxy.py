"""The least that produces over HTTP: aiohttp and aiokafka, in a process of its own.

The first draft of such a proxy: parses a body of API v2's JSON format, sends every record, and
answers with the offsets. It knows no limits, and checks nothing.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web
from aiokafka import AIOKafkaProducer

from headrace.testing.readiness import free_port
from testkit.process.child_process import ChildProcess

_STARTED = re.compile(r"Running on ")
_BODY_MAX_BYTES = 16 * 1024 * 1024
_START_SECONDS = 60.0


class MinimalRestProxy(ChildProcess):
    """A proxy on loopback and a free port; produces to topics, and no more."""

    NAME = "minimal REST proxy"

    def __init__(self, folder: Path, brokers: str) -> None:
        super().__init__(folder, "minimal-rest.log")
        folder.mkdir(parents=True, exist_ok=True)
        self._brokers = brokers
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        self._begin_log()
        self._launch(
            [sys.executable, "-m", __name__, self._brokers, str(self._port)],
            lambda: _STARTED.search(self.log) is not None,
            seconds=_START_SECONDS,
        )


def application(brokers: str) -> web.Application:
    """Return the proxy of a cluster."""
    producer_key = web.AppKey("producer", AIOKafkaProducer)

    async def lifespan(app: web.Application) -> AsyncIterator[None]:
        app[producer_key] = AIOKafkaProducer(bootstrap_servers=brokers, acks="all")
        await app[producer_key].start()
        yield
        await app[producer_key].stop()

    async def produce(request: web.Request) -> web.Response:
        topic, producer = request.match_info["topic"], request.app[producer_key]
        records = (await request.json())["records"]
        sent = [await producer.send(topic, json.dumps(each["value"]).encode()) for each in records]
        placed = await asyncio.gather(*sent)
        offsets = [{"partition": each.partition, "offset": each.offset} for each in placed]
        return web.json_response(
            {"offsets": offsets, "key_schema_id": None, "value_schema_id": None}
        )

    app = web.Application(client_max_size=_BODY_MAX_BYTES)
    app.router.add_post("/topics/{topic}", produce)
    app.cleanup_ctx.append(lifespan)
    return app


if __name__ == "__main__":
    web.run_app(application(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), access_log=None)
