"""Looks at methods and finished runs: what they keep, what moves, what each ingredient is worth."""
