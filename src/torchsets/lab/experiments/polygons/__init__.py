"""Rotating polygons: auto-encode them with FSPool, predict them with DSPN."""
