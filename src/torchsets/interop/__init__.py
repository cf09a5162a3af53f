"""Thin adapters to other libraries, imported by name: most need the library they adapt to."""
