"""The loops over Avro events, compiled by numba. Importing one of these costs numba's start."""
