"""Records as text and as files: fields, formats, offsets."""
