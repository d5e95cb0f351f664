"""The REST proxy: Confluent's REST API (v2 and v3) on a Kafka cluster."""
