"""What the records of `_schemas` add up to. Pure: no HTTP, no clock, no topic."""
