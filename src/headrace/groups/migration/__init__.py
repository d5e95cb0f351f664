"""Groups on their way between the classic and the consumer protocol (KIP-848)."""
