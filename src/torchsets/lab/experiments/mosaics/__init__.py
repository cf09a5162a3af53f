"""Image mosaics: put the shuffled tiles of a picture together (sections 4.4.2 and 4.4.3)."""
