"""A record of the Kinesis Producer Library, as another implementation writes it."""

AGGREGATE = bytes.fromhex(
    "f3899ac20a036164610a03626f621201371a0708001a036f6e651a0f080110001a0974776f74776f74776f"
    "1a0408001a009a12f099d2e32ef20bec968f21bea7c3"
)
"""By aws-kinesis-agg 1.2.3: "ada" one, "bob" twotwotwo with the hash key 7, "ada" nothing."""
