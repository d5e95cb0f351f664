"""Consumer groups without I/O: classic and KIP-848 membership, committed offsets, their records."""
