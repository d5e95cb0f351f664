"""Print the records of a stream as async-kinesis returns them, until so many have come.

Arguments: URL, stream, number of records.
"""

import asyncio
import sys

from kinesis import Consumer, StringProcessor


async def consume(url: str, stream: str, most: int) -> None:
    consumer = Consumer(
        stream_name=stream,
        endpoint_url=url,
        region_name="us-east-1",
        processor=StringProcessor(),
        sleep_time_no_records=0.2,
        shard_fetch_rate=4,
        record_limit=1000,
    )
    # It lists shards once per minute; a test does not wait that long.
    consumer._shard_refresh_interval = 1
    count = 0
    async with consumer:
        while count < most:
            async for record in consumer:  # ends when nothing comes for a while
                count += 1
                print(record, flush=True)


print("starts", flush=True)
asyncio.run(consume(sys.argv[1], sys.argv[2], int(sys.argv[3])))
