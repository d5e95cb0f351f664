"""KIP-848 consumer groups: one heartbeat, and an assignment computed by the broker."""
