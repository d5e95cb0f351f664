"""The source of the format `headrace`: ranges of topics as rows."""
