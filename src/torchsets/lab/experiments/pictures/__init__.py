"""Predict the objects of scenes from pictures: their states, or their boxes."""
