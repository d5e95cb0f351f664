"""Values of one schema: bytes to Python objects and back, one class per format."""
