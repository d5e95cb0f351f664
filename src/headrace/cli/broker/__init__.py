"""`headrace up`: its command line, and what it does with a broker."""
