"""Metrics that clients push (KIP-714): subscriptions, what a push holds, and the page of them."""
