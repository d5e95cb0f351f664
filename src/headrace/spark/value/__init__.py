"""Values decoded into columns: JSON, CSV, Avro."""
