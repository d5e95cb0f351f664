"""The loops over records, compiled by numba. Importing one of these modules costs numba's start."""
