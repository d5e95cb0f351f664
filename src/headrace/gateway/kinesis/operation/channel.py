"""The five operations on channels. Headrace has none: CreateChannel says so, the others find none.

A channel of the service delivers records to S3 or to Iceberg tables under an IAM role. Here Spark,
flows and agents do that from the stream's topic.
"""

from headrace.gateway.kinesis.error import invalid_argument, not_found
from headrace.gateway.kinesis.service import KinesisService, Request, Response


def create_channel(service: KinesisService, request: Request) -> Response:
    for each in request["StreamConfigurationList"]:
        service.stream({"StreamARN": each["StreamARN"]})
    raise invalid_argument(
        "CreateChannel is not available: Headrace delivers no records to S3 by itself; read the "
        "stream or its topic with Spark, a flow or an agent."
    )


def list_channels(service: KinesisService, request: Request) -> Response:
    if "NextToken" in request:
        raise invalid_argument("Invalid NextToken.")
    return {"ChannelSummaries": []}


def no_channel(service: KinesisService, request: Request) -> Response:
    """DescribeChannel, UpdateChannel and DeleteChannel."""
    raise not_found(f"Channel {request['ChannelARN'][:300]} not found.")
