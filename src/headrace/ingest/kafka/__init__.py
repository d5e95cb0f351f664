"""Events as records of topics."""
