"""MNIST as sets of points: denoise and auto-encode them, classify them."""
