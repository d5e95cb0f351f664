"""The rates that a shard allows."""
