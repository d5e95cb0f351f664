"""Schemas of records: Avro, JSON Schema, Protobuf, parsed and compared as Confluent does it.

This room is pure: text in, verdicts out; no HTTP, no topics, no clock. The registry uses it, and
`headrace.serde`, which reads and writes values.

How it is used::

    from headrace.schema.compatibility import CompatibilityLevel, check
    from headrace.schema.error import InvalidSchema
    from headrace.schema.parse import parse
    from headrace.schema.schema import Reference, SchemaText, SchemaType

    text = SchemaText(SchemaType.AVRO, '{"type": "string"}')
    new = parse(text, resolved={})            # InvalidSchema (42201) with one clear sentence
    new.canonical                             # what is stored, and compared for "the same schema"
    new.normalized, new.normalized_references # the same with normalize=true
    new.name                                  # of the record or first message, or the title
    new.formatted("resolved")                 # ?format=: resolved (Avro), serialized (Protobuf)

    found = check(CompatibilityLevel.BACKWARD, new, earlier=[first, second])   # oldest first
    for each in found:                        # empty: compatible
        each.type, each.path, each.message, each.earlier     # earlier: index into the list given
        str(each)                             # the line of "messages" in a verbose answer

`resolved` maps the `name` of every reference, and of its references in turn, to the text of the
schema it stands for; the caller has looked them up. Order does not matter.

`parse` is bounded in time and memory for any text (headrace.schema.limit); it is CPU work of up to
a second for the largest text allowed, so an event loop calls it in a thread.
A ParsedSchema is immutable and may be kept and shared between threads.
"""
