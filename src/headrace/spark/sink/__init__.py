"""The sink of the format `headrace`: rows of a DataFrame into topics."""
