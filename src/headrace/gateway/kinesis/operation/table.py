"""Which function serves which operation.

An operation of the model that is not in the table is answered with an error that says so.
"""

from typing import Final

from headrace.gateway.kinesis.operation import (
    account_setting,
    capacity,
    channel,
    consumer,
    encryption,
    get,
    monitoring,
    policy,
    put,
    shard,
    stream,
    tag,
)
from headrace.gateway.kinesis.service import Operation

OPERATIONS: Final[dict[str, Operation]] = {
    "AddTagsToStream": tag.add_tags,
    "CreateChannel": channel.create_channel,
    "CreateStream": stream.create_stream,
    "DecreaseStreamRetentionPeriod": stream.decrease_retention,
    "DeleteStream": stream.delete_stream,
    "DeleteChannel": channel.delete_channel,
    "DeleteResourcePolicy": policy.delete_resource_policy,
    "DeregisterStreamConsumer": consumer.deregister_consumer,
    "DescribeAccountSettings": account_setting.describe_account_settings,
    "DescribeChannel": channel.describe_channel,
    "DescribeLimits": stream.describe_limits,
    "DescribeStream": stream.describe_stream,
    "DescribeStreamConsumer": consumer.describe_consumer,
    "DescribeStreamSummary": stream.describe_stream_summary,
    "DisableEnhancedMonitoring": monitoring.disable_monitoring,
    "EnableEnhancedMonitoring": monitoring.enable_monitoring,
    "GetRecords": get.get_records,
    "GetResourcePolicy": policy.get_resource_policy,
    "GetShardIterator": get.get_shard_iterator,
    "IncreaseStreamRetentionPeriod": stream.increase_retention,
    "ListChannels": channel.list_channels,
    "ListShards": shard.list_shards,
    "ListStreamConsumers": consumer.list_consumers,
    "ListStreams": stream.list_streams,
    "ListTagsForResource": tag.list_tags_for_resource,
    "ListTagsForStream": tag.list_tags_for_stream,
    "MergeShards": shard.merge_shards,
    "PutRecord": put.put_record,
    "PutRecords": put.put_records,
    "PutResourcePolicy": policy.put_resource_policy,
    "RegisterStreamConsumer": consumer.register_consumer,
    "RemoveTagsFromStream": tag.remove_tags,
    "SplitShard": shard.split_shard,
    "StartStreamEncryption": encryption.start_encryption,
    "StopStreamEncryption": encryption.stop_encryption,
    "TagResource": tag.add_tags,
    "UntagResource": tag.remove_tags,
    "UpdateAccountSettings": account_setting.update_account_settings,
    "UpdateChannel": channel.update_channel,
    "UpdateMaxRecordSize": stream.update_max_record_size,
    "UpdateShardCount": shard.update_shard_count,
    "UpdateStreamMode": capacity.update_stream_mode,
    "UpdateStreamRecordDistributionStrategy": capacity.update_distribution,
    "UpdateStreamWarmThroughput": capacity.update_warm_throughput,
}

SUBSCRIBE: Final = "SubscribeToShard"
"""Not in the table: its answer is a stream (`subscription`)."""

PUTS: Final = frozenset({"PutRecord", "PutRecords"})
READS: Final = frozenset({"GetRecords", "GetShardIterator"})
