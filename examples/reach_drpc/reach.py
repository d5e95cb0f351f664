"""Reach of a URL: how many different people follow someone who posted it.

One request fans out to all posters of the URL and on to all of their followers, over several tasks.
It is counted in two steps: each task counts its distinct followers, then the counts are added up.
The tasks work in parallel, so a call takes as long as its slowest task.
"""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow import Emit
from headrace.flow.drpc import FunctionTopology

# A real function would ask a database, in `prepare` and `execute` of a Bolt.
POSTERS = {
    "https://example.com/streams": ["sally", "bob", "tim", "george", "nathan"],
    "https://example.com/tables": ["adam", "david", "sally", "nathan"],
    "https://example.com/no-poster": [],
}
FOLLOWERS = {
    "sally": ["bob", "tim", "alice", "adam", "jim", "chris", "jai"],
    "bob": ["sally", "nathan", "jim", "mary", "david", "vivian"],
    "tim": ["alex"],
    "nathan": ["sally", "bob", "adam", "harry", "chris", "vivian", "emily", "jordan"],
    "adam": ["david", "carissa"],
    "david": ["john", "alex"],
    "george": ["alice", "jim", "alex"],
}


def posters(request: str, url: str) -> list[tuple[str, str | None]]:
    # The tuple without a poster gives a URL without posters an answer too.
    return [(request, None), *((request, poster) for poster in POSTERS.get(url, []))]


def followers(request: str, poster: str | None) -> list[tuple[str, str | None]]:
    if poster is None:
        return [(request, None)]
    return [(request, follower) for follower in FOLLOWERS.get(poster, [])]


def unique(batch: pa.RecordBatch, emit: Emit) -> None:
    """Count the distinct followers of each request in this task."""
    pairs = pa.table(batch).group_by(["request", "follower"]).aggregate([])
    counted = pairs.group_by("request").aggregate([("follower", "count")])
    emit([counted["request"], counted["follower_count"]])


def total(batch: pa.RecordBatch, emit: Emit) -> None:
    summed = pa.table(batch).group_by("request").aggregate([("n", "sum")])
    emit([summed["request"], pc.cast(summed["n_sum"], pa.string())])


def topology(brokers: str, function: str = "reach") -> FunctionTopology:
    made = FunctionTopology(function, brokers=brokers)
    made.bolt("posters", posters, output="request STRING, poster STRING").shuffle("requests")
    made.bolt(
        "followers", followers, output="request STRING, follower STRING", parallelism=2
    ).fields("posters", "request", "poster")
    made.bolt("unique", unique, output="request STRING, n BIGINT", parallelism=2).fields(
        "followers", "request", "follower"
    )
    made.bolt("total", total, output="request STRING, result STRING").fields("unique", "request")
    made.reply("total")
    return made
