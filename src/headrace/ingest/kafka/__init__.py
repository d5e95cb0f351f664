"""Events as records of topics, and the settings of Kafka clients."""
