"""What can be asked over HTTP, one module a topic; `table` has them all."""
