"""Keys and values that name a schema in a registry: their Spark types, and columns of them."""
