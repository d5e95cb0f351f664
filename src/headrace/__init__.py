"""Headrace: a durable log that speaks Kafka's protocol, with ingestion and Spark on top.

The package root imports nothing, so that each part loads only what it needs: a broker never
loads Spark, and `headrace --help` never loads numba. Import the noun you want from its file:

    >>> from headrace.records.batch import Batch
"""

__version__ = "0.1.0.dev0"
