"""`headrace flow`: stream programs on Spark."""
