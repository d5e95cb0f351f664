"""What a program does, free of any engine: components, streams, stages."""
