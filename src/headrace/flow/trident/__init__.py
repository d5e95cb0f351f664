"""Chains in Trident's words: each, groupBy, persistentAggregate, states that count once.

Example:
    from headrace.flow.trident.topology import TridentTopology
"""
