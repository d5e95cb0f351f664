"""Machinery for tests and benchmarks: real peers, a disk that crashes, waiting for conditions."""
