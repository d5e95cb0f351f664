"""The least that produces over HTTP: starlette, uvicorn and aiokafka, in a process of its own.

The first draft of such a proxy: parses a body of API v2's JSON format, sends every record, and
answers with the offsets. It knows no limits, and checks nothing.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from aiokafka import AIOKafkaProducer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace.testing.readiness import free_port
from testkit.process.child_process import ChildProcess

_STARTED = re.compile(r"Application startup complete")
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


def application(brokers: str) -> Starlette:
    """Return the proxy of a cluster."""
    producers: list[AIOKafkaProducer] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        producer = AIOKafkaProducer(bootstrap_servers=brokers, acks="all")
        await producer.start()
        producers.append(producer)
        yield
        await producer.stop()

    async def produce(request: Request) -> JSONResponse:
        topic = request.path_params["topic"]
        records = json.loads(await request.body())["records"]
        sent = [
            await producers[0].send(topic, json.dumps(each["value"]).encode()) for each in records
        ]
        placed = await asyncio.gather(*sent)
        offsets = [{"partition": each.partition, "offset": each.offset} for each in placed]
        return JSONResponse({"offsets": offsets, "key_schema_id": None, "value_schema_id": None})

    return Starlette(
        routes=[Route("/topics/{topic}", produce, methods=["POST"])], lifespan=lifespan
    )


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        loop="asyncio",
        access_log=False,
    )
