"""One program that runs as a stream, or as a batch over a range of offsets or times.

Lambda architectures have the logic twice, in a fast and a slow layer; here it is the same file. Run
it as a stream for today's figures, and as a batch to compute yesterday's again.
"""

from headrace.flow import Aggregate
from headrace.flow.storm import TopicSink, TopicSpout, Topology


def paid(shop: str, cents: int, status: str) -> tuple[str, int] | None:
    return (shop, cents) if status == "paid" else None


def topology(brokers: str, orders: str = "orders", totals: str = "totals") -> Topology:
    made = Topology("orders")
    fields = "shop STRING, cents BIGINT, status STRING"
    made.spout("orders", TopicSpout(orders, brokers=brokers, fields=fields, format="json"))
    made.bolt("paid", paid, output="shop STRING, cents BIGINT").shuffle("orders")
    summed = Aggregate("shop", orders="count", cents_total="sum(cents)", dearest="max(cents)")
    made.bolt("sum", summed).fields("paid", "shop")
    made.sink("totals", TopicSink(totals, key="shop")).shuffle("sum")
    return made
