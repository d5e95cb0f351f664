"""The five operations on channels: what is accepted, refused and shown."""

from typing import Any

import pytest

from headrace.gateway.kinesis.channel.channel_state import ChannelStatus
from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.operation.table import OPERATIONS
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.stream.stream_state import StreamMode, new_stream
from testkit.simulation.kinesis_memory import memory_service

ARN = "arn:aws:kinesis:us-east-1:000000000000:"
BUCKET = {"BucketARN": "arn:aws:s3:::lake", "ExpectedBucketOwner": "000000000000"}
STORAGE = {**BUCKET, "CompressionType": "ZSTD"}


@pytest.fixture
def service() -> KinesisService:
    service = memory_service(limits=True, channels_to="/nowhere")
    for name, mode in (("clicks", StreamMode.ON_DEMAND), ("fixed", StreamMode.PROVISIONED)):
        service.keeper.change(name, lambda _, n=name, m=mode: new_stream(n, 4, 1_000, mode=m))
    return service


def call(service: KinesisService, operation: str, **request: Any) -> dict[str, Any]:
    answer = OPERATIONS[operation](service, request)
    assert isinstance(answer, dict)
    return answer


def request(stream: str = "clicks", **changes: Any) -> dict[str, Any]:
    source = {
        "StreamARN": f"{ARN}stream/{stream}",
        "RecordConfiguration": {"RecordFormatType": "JSON"},
    }
    return {
        "ChannelName": "one",
        "ServiceExecutionRoleARN": "arn:aws:iam::000000000000:role/delivery",
        "StreamConfigurationList": [source],
        "S3DestinationConfiguration": {"StorageConfiguration": STORAGE},
        **changes,
    }


def refused(service: KinesisService, operation: str, **members: Any) -> ServiceError:
    with pytest.raises(ServiceError) as error:
        call(service, operation, **members)
    return error.value


def set_status(service: KinesisService, status: ChannelStatus) -> None:
    from dataclasses import replace

    service.channels.change("one", lambda now: None if now is None else replace(now, status=status))


def test_a_new_channel_is_described_with_its_defaults(service: KinesisService) -> None:
    created = call(service, "CreateChannel", **request(Tags={"team": "web"}))["ChannelDescription"]

    assert (
        created
        == call(service, "DescribeChannel", ChannelARN=f"{ARN}channel/one")["ChannelDescription"]
    )
    assert (created["ChannelStatus"], created["ChannelARN"]) == ("CREATING", f"{ARN}channel/one")
    destination = created["S3DestinationConfiguration"]
    assert destination["DataFreshnessInSeconds"] == 300
    assert destination["StorageConfiguration"]["StorageClass"] == "STANDARD"
    assert destination["DeadLetterQueueS3Configuration"]["BucketARN"] == BUCKET["BucketARN"]
    assert created["LoggingConfiguration"] == {"CloudWatchLogs": {"Enabled": False}}
    tags = call(service, "ListTagsForResource", ResourceARN=f"{ARN}channel/one")["Tags"]
    assert tags == [{"Key": "team", "Value": "web"}]
    summary = call(service, "DescribeStreamSummary", StreamName="clicks")
    assert summary["StreamDescriptionSummary"]["ChannelCount"] == 1
    assert call(service, "DescribeLimits")["ChannelCount"] == 1


def s3(storage: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {"S3DestinationConfiguration": {"StorageConfiguration": storage or STORAGE, **members}}


def source(record: dict[str, Any]) -> dict[str, Any]:
    one = {"StreamARN": f"{ARN}stream/clicks", "RecordConfiguration": record}
    return {"StreamConfigurationList": [one]}


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        (s3(DataFreshnessInSeconds=299), "InvalidArgumentException", "from 300 to 900"),
        (s3({**STORAGE, "StorageClass": "GLACIER_IR"}), "InvalidArgumentException", "GLACIER_IR"),
        (s3({**STORAGE, "OutputKeyTemplate": "../x"}), "InvalidArgumentException", "part"),
        (
            s3(DeadLetterQueueS3Configuration={**BUCKET, "ErrorOutputPrefix": "a/../../b"}),
            "InvalidArgumentException",
            "ErrorOutputPrefix",
        ),
        (source({"RecordFormatType": "GSR_JSON"}), "InvalidArgumentException", "streaming tables"),
        (
            {"EncryptionConfiguration": {"EncryptionType": "KMS", "KeyId": "k"}},
            "InvalidArgumentException",
            "encrypt",
        ),
        (
            {"LoggingConfiguration": {"CloudWatchLogs": {"Enabled": True}}},
            "InvalidArgumentException",
            "its own log",
        ),
        ({"S3TablesDestinationConfiguration": {}}, "InvalidArgumentException", "but not both"),
        ({"Tags": {str(at): "" for at in range(51)}}, "InvalidArgumentException", "50 tags"),
    ],
)
def test_what_a_gateway_cannot_do_is_refused_with_the_reason(
    service: KinesisService, changes: dict[str, Any], code: str, why: str
) -> None:
    error = refused(service, "CreateChannel", **request(**changes))

    assert (error.code, why in (error.message or "")) == (code, True), error
    assert not service.channels.channels


def test_iceberg_tables_are_refused_with_the_reason(service: KinesisService) -> None:
    members = request(S3TablesDestinationConfiguration={})
    del members["S3DestinationConfiguration"]

    error = refused(service, "CreateChannel", **members)

    assert error.code == "InvalidArgumentException" and "Iceberg" in (error.message or "")


def test_only_on_demand_streams_have_channels(service: KinesisService) -> None:
    assert refused(service, "CreateChannel", **request("fixed")).code == "ValidationException"
    assert refused(service, "CreateChannel", **request("none")).code == "ResourceNotFoundException"


def test_a_gateway_without_a_place_for_files_says_so() -> None:
    service = memory_service()
    stream = new_stream("clicks", 4, 1_000, mode=StreamMode.ON_DEMAND)
    service.keeper.change("clicks", lambda _: stream)

    error = refused(service, "CreateChannel", **request())

    assert error.code == "InvalidArgumentException" and "--channels-to" in (error.message or "")


def test_a_name_is_used_once_and_a_stream_has_one_channel(service: KinesisService) -> None:
    call(service, "CreateChannel", **request())

    assert refused(service, "CreateChannel", **request()).code == "ResourceInUseException"
    other = refused(service, "CreateChannel", **request(ChannelName="two"))
    assert other.code == "LimitExceededException"


def test_a_stream_with_a_channel_is_neither_deleted_nor_provisioned(
    service: KinesisService,
) -> None:
    call(service, "CreateChannel", **request())
    provisioned = {"StreamModeDetails": {"StreamMode": "PROVISIONED"}}

    assert refused(service, "DeleteStream", StreamName="clicks").code == "ResourceInUseException"
    error = refused(service, "UpdateStreamMode", StreamARN=f"{ARN}stream/clicks", **provisioned)
    assert error.code == "ResourceInUseException"

    call(service, "DeleteChannel", ChannelARN=f"{ARN}channel/one")
    call(service, "DeleteStream", StreamName="clicks")


def test_the_freshness_of_an_active_channel_can_be_changed(service: KinesisService) -> None:
    arn = {"ChannelARN": f"{ARN}channel/one"}
    fresher = {"S3DestinationConfiguration": {"DataFreshnessInSeconds": 600}}
    call(service, "CreateChannel", **request())

    assert refused(service, "UpdateChannel", **arn, **fresher).code == "ResourceInUseException"
    assert refused(service, "UpdateChannel", **arn).code == "InvalidArgumentException"
    set_status(service, ChannelStatus.ACTIVE)
    updated = call(service, "UpdateChannel", **arn, **fresher)["ChannelDescription"]

    assert updated["ChannelStatus"] == "UPDATING"
    assert updated["S3DestinationConfiguration"]["DataFreshnessInSeconds"] == 600


def test_a_deleted_channel_is_deleting_until_it_is_gone(service: KinesisService) -> None:
    arn = {"ChannelARN": f"{ARN}channel/one"}
    call(service, "CreateChannel", **request())

    for _ in range(2):
        assert call(service, "DeleteChannel", **arn) == {}
        described = call(service, "DescribeChannel", **arn)["ChannelDescription"]
        assert described["ChannelStatus"] == "DELETING"
    service.channels.change("one", lambda _: None)
    for operation in ("DescribeChannel", "UpdateChannel", "DeleteChannel"):
        error = refused(service, operation, **arn)
        assert error.code == "ResourceNotFoundException"


def test_channels_are_listed_by_page_and_by_stream() -> None:
    service = memory_service(limits=False, channels_to="/nowhere")
    for name in ("clicks", "views"):
        stream = new_stream(name, 4, 1_000, mode=StreamMode.ON_DEMAND)
        service.keeper.change(name, lambda _, stream=stream: stream)
    for name, stream_name in (("a", "clicks"), ("b", "views"), ("c", "clicks")):
        call(service, "CreateChannel", **request(stream_name, ChannelName=name))

    first = call(service, "ListChannels", MaxResults=2)
    rest = call(service, "ListChannels", NextToken=first["NextToken"])
    only = call(service, "ListChannels", StreamFilter=[{"StreamARN": f"{ARN}stream/clicks"}])

    names = [[each["ChannelName"] for each in page["ChannelSummaries"]] for page in (first, rest)]
    assert names == [["a", "b"], ["c"]] and "NextToken" not in rest
    assert [each["ChannelName"] for each in only["ChannelSummaries"]] == ["a", "c"]
    with pytest.raises(ServiceError, match="NextToken"):
        call(service, "ListChannels", NextToken="forged")


def test_tags_of_a_channel_are_set_and_taken_away(service: KinesisService) -> None:
    arn = {"ResourceARN": f"{ARN}channel/one"}
    assert refused(service, "TagResource", **arn, Tags={"a": "1"}).code == (
        "ResourceNotFoundException"
    )
    call(service, "CreateChannel", **request())

    call(service, "TagResource", **arn, Tags={"a": "1", "b": "2"})
    call(service, "UntagResource", **arn, TagKeys=["a"])

    assert call(service, "ListTagsForResource", **arn)["Tags"] == [{"Key": "b", "Value": "2"}]
