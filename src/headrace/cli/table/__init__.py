"""`headrace land` and `headrace table`: topics as tables."""
