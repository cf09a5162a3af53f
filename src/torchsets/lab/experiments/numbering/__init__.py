"""Small benchmarks of set prediction: auto-encoding random sets."""
