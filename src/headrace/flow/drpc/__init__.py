"""Functions that a topology answers: requests and replies travel through topics."""
