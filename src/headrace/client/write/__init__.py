"""Arrow tables in, as records of topics."""
