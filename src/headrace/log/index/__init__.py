"""Finding a batch by offset, by time or by transaction, in sparse files rebuilt after a crash."""
