"""The battery that every method passes, for methods of one's own too."""
