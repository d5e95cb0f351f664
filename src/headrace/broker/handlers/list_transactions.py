"""ListTransactions (66), versions 0 to 2: the transactional ids this broker coordinates.

Version 1 filters by how long a transaction is open (KIP-994), version 2 by a pattern (KIP-1152).
"""

from typing import Any

from kio.schema.list_transactions.v2.request import ListTransactionsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.coordinator.transaction_coordinator import TransactionRefusal
from headrace.broker.error_mapping import group_code, transaction_code
from headrace.groups.error import Refusal
from headrace.groups.regex import matching_topics
from headrace.transactions.listing import ListingFilter, TransactionListing
from headrace.wire.api import ApiKey

API = ApiKey.LIST_TRANSACTIONS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ListTransactionsRequest)
    wanted = ListingFilter(
        states=frozenset(request.state_filters),
        producer_ids=frozenset(request.producer_id_filters),
        longer_than_ms=request.duration_filter,
    )
    now_ms = broker.clock.wall_ms()
    try:
        found = [
            listing
            for registry in broker.transactions.registries()
            for listing in registry.list_transactions(wanted, now_ms)
            if not broker.guard.denies_transactional_id(
                call, Operation.DESCRIBE, listing.transactional_id
            )
        ]
    except TransactionRefusal as refusal:
        return {"error_code": transaction_code(refusal.error)}
    if request.transactional_id_pattern:
        try:
            found = await _matching(broker, request.transactional_id_pattern, found)
        except Refusal as refusal:
            return {"error_code": group_code(refusal.error)}
    return {
        "unknown_state_filters": sorted(wanted.unknown_states),
        "transaction_states": [
            {
                "transactional_id": listing.transactional_id,
                "producer_id": listing.producer_id,
                "transaction_state": listing.state,
            }
            for listing in found
        ],
    }


async def _matching(
    broker: Broker, pattern: str, found: list[TransactionListing]
) -> list[TransactionListing]:
    """Match in a thread: a pattern from outside may be slow to compile."""
    names = [listing.transactional_id for listing in found]
    matching = frozenset(await broker.in_thread(lambda: matching_topics(pattern, names)))
    return [listing for listing in found if listing.transactional_id in matching]
