"""The command line: one file or folder per noun, loaded when the noun is used."""
