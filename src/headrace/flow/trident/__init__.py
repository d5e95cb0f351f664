"""Chains for Trident users: each, group_by, persistent_aggregate, and states that count once.

A name is loaded on first use.

    TridentTopology       Declares chains of operations, beginning with `new_stream`.
    Stream                Tuples of a chain; its methods add operations.
    GroupedStream         A stream grouped by fields.
    TridentState          A state that a chain keeps; `Stream.state_query` asks it.
    CombinerAggregator    Base class: combines the values of two tuples into one.
    ReducerAggregator     Base class: changes a value with each tuple.
    Aggregator            Base class: turns a batch into any number of tuples.
    TopicState            Keeps totals in Spark's checkpoint and writes them to a topic.
    SqliteState           Keeps totals in an SQLite file.
    PostgresState         Keeps totals in a PostgreSQL table.
    ParquetState          Keeps totals in Parquet files.
    StateFactory          Base class of states outside of Spark.
    Backing               Base class: stores the entries of a state.
    Mode                  How a state treats a repeated batch.
    SpoutKind             What a repeated batch of a spout has.
    StateUpdater          Base class: updates a state, for `Stream.partition_persist`.
    TridentCollector      Takes what an updater emits.
    MapState              Values by key, which an updater changes.
    State                 Base class of states of your own, made by a `StateFactory`.

Spouts are those of `headrace.flow.storm`; windows are in `headrace.flow`.

Example:
    from headrace.flow.storm import TopicSpout
    from headrace.flow.trident import TopicState, TridentTopology

    topology = TridentTopology("words")
    words = topology.new_stream("words", TopicSpout("words", brokers=brokers))
    words.group_by("value").persistent_aggregate(TopicState("counts"), n="count")
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "Aggregator",
    "Backing",
    "CombinerAggregator",
    "GroupedStream",
    "MapState",
    "Mode",
    "ParquetState",
    "PostgresState",
    "ReducerAggregator",
    "SpoutKind",
    "SqliteState",
    "State",
    "StateFactory",
    "StateUpdater",
    "Stream",
    "TopicState",
    "TridentCollector",
    "TridentState",
    "TridentTopology",
]

if TYPE_CHECKING:
    from headrace.flow.trident.aggregator import (
        Aggregator,
        CombinerAggregator,
        ReducerAggregator,
    )
    from headrace.flow.trident.map_state import MapState
    from headrace.flow.trident.parquet_state import ParquetState
    from headrace.flow.trident.postgres_state import PostgresState
    from headrace.flow.trident.spout_kind import SpoutKind
    from headrace.flow.trident.sqlite_state import SqliteState
    from headrace.flow.trident.state import Backing, Mode, State, StateFactory
    from headrace.flow.trident.stream import GroupedStream, Stream, TridentState
    from headrace.flow.trident.topic_state import TopicState
    from headrace.flow.trident.topology import TridentTopology
    from headrace.flow.trident.updater import StateUpdater, TridentCollector
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "State": "headrace.flow.trident.state",
            "MapState": "headrace.flow.trident.map_state",
            "TridentCollector": "headrace.flow.trident.updater",
            "StateUpdater": "headrace.flow.trident.updater",
            "SpoutKind": "headrace.flow.trident.spout_kind",
            "Aggregator": "headrace.flow.trident.aggregator",
            "Backing": "headrace.flow.trident.state",
            "CombinerAggregator": "headrace.flow.trident.aggregator",
            "GroupedStream": "headrace.flow.trident.stream",
            "Mode": "headrace.flow.trident.state",
            "ParquetState": "headrace.flow.trident.parquet_state",
            "PostgresState": "headrace.flow.trident.postgres_state",
            "ReducerAggregator": "headrace.flow.trident.aggregator",
            "SqliteState": "headrace.flow.trident.sqlite_state",
            "StateFactory": "headrace.flow.trident.state",
            "Stream": "headrace.flow.trident.stream",
            "TopicState": "headrace.flow.trident.topic_state",
            "TridentState": "headrace.flow.trident.stream",
            "TridentTopology": "headrace.flow.trident.topology",
        },
    )
