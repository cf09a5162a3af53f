"""Predict the objects of scenes."""
