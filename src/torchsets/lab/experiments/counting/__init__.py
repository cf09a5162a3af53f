"""Chapter 3: count the objects behind overlapping proposals."""
