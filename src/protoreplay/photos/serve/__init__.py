"""The web page of the photo classifier, and the HTTP API behind it."""
