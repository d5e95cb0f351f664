"""Membership in a classic consumer group."""
