"""Counts of records per topic, tier and time bucket, and what they must add up to.

A name is loaded on first use.

    Tally              Counts the records of one tier.
    Reporter           Writes a tally's counts to the audit topic, in the background.
    AuditedProducer    confluent-kafka's producer, which counts what was acknowledged.
    AuditedConsumer    confluent-kafka's consumer, which counts what it returned.
    AuditedWriter      The Arrow writer, which counts what `flush` or `commit` made sure of.

Example:
    from headrace.audit import AuditedProducer, Reporter, Tally

    tally = Tally("producer")
    with Reporter(tally, settings):
        producer = AuditedProducer(config, tally)
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = ["AuditedConsumer", "AuditedProducer", "AuditedWriter", "Reporter", "Tally"]

if TYPE_CHECKING:
    from headrace.audit.audited_writer import AuditedWriter
    from headrace.audit.confluent import AuditedConsumer, AuditedProducer
    from headrace.audit.reporter import Reporter
    from headrace.audit.tally import Tally
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "AuditedConsumer": "headrace.audit.confluent",
            "AuditedProducer": "headrace.audit.confluent",
            "AuditedWriter": "headrace.audit.audited_writer",
            "Reporter": "headrace.audit.reporter",
            "Tally": "headrace.audit.tally",
        },
    )
