"""How often each hashtag was used, in a table of PostgreSQL, each tweet counted once."""

import re

from headrace.flow.storm import TopicSpout
from headrace.flow.trident import PostgresState, TridentTopology

TAG = re.compile(r"#(\w+)")


def hashtags(text: str) -> list[str]:
    return [tag.lower() for tag in TAG.findall(text or "")]


def topology(
    brokers: str,
    database: str = "postgresql://postgres@127.0.0.1:5432/postgres",
    tweets: str = "tweets",
    table: str = "hashtags",
) -> TridentTopology:
    made = TridentTopology("hashtags")
    spout = TopicSpout(tweets, brokers=brokers, fields="text STRING, likes BIGINT", format="json")
    tags = made.new_stream("tweets", spout).each("text", hashtags, output="tag STRING")
    counts = tags.group_by("tag").persistent_aggregate(
        PostgresState(database, table), n="count", likes="sum(likes)"
    )
    counts.parallelism_hint(2)
    return made
