"""`headrace schema`: what a schema registry holds, in the grammar of `rpk registry`."""
