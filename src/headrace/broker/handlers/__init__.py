"""One file per API: parse, authorize, do, answer. The file is called as Kafka calls the API."""
