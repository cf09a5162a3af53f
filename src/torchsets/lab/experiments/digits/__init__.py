"""Predict digits as sets of points."""
