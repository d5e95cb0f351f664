"""HTTP/2: what the Java SDK speaks, and its fan-out needs."""
