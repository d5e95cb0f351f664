"""Headrace: a durable log that speaks Kafka's protocol, with ingestion and Spark on top.

The package root imports nothing, so that each part loads only what it needs: a broker never loads
Spark, and `headrace --help` never loads numba. Packages for users list their public names, and load
each on first use:

    >>> from headrace.client import Reader, Writer
    >>> from headrace.spark import session
"""

__version__ = "0.1.0.dev0"
