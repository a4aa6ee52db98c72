"""Where images come from."""
