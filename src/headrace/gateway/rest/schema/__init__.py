"""Keys and values with schemas: from JSON to framed bytes, and back."""
