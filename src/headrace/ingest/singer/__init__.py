"""Singer's protocol: taps write messages as lines of JSON, targets read them."""
