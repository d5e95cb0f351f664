"""For tests of programs that use Headrace: brokers in your process, flows without Spark."""
