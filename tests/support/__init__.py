"""What tests share: fixtures, loopback services, makers of documents and processes."""
