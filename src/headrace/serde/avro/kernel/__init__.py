"""The loops over Avro's bytes, compiled by numba. Importing one of these costs numba's start."""
