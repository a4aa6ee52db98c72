"""Finished runs become tables, figures and one HTML page; nothing here trains."""
