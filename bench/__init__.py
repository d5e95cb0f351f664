"""Benchmarks. Never part of the tests: run them with `make bench`."""
