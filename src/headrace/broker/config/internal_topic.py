"""The names of the topics in which the coordinators keep their state."""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
