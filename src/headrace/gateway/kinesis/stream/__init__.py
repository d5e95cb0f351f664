"""A stream as a pure state machine: its shards, and how they split and merge."""
