"""The web page of the HTTP server: static files, and the operations that serve them."""
