"""The records of MirrorMaker 2 in its own topics: heartbeats, checkpoints, offset syncs."""
