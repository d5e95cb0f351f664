"""The state of all streams, in one compacted topic that every instance follows."""
