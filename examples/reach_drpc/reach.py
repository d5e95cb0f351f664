"""Reach of a URL: how many different people follow anybody who posted it.

One request fans out to everyone who posted the URL and on to all of their followers, over several
tasks, and is counted in two steps: each task drops the followers it has twice, then the counts are
added up. A call would take long one after the other; here it is as long as its slowest task.
"""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.drpc.function import FunctionTopology
from headrace.flow.plan.work import Emit

# A real function would ask a database, in `prepare` and `execute` of a Bolt.
POSTERS = {
    "https://example.com/streams": ["sally", "bob", "tim", "george", "nathan"],
    "https://example.com/tables": ["adam", "david", "sally", "nathan"],
    "https://example.com/nobody": [],
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
    # The tuple without a poster lets a URL that nobody posted have an answer too.
    return [(request, None), *((request, poster) for poster in POSTERS.get(url, []))]


def followers(request: str, poster: str | None) -> list[tuple[str, str | None]]:
    if poster is None:
        return [(request, None)]
    return [(request, follower) for follower in FOLLOWERS.get(poster, [])]


def unique(batch: pa.RecordBatch, emit: Emit) -> None:
    """How many different followers of each request this task has."""
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
