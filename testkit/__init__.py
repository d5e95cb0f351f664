"""What the project's own tests, benchmarks and tools share. Not part of the wheel."""
