"""Small benchmarks of set prediction."""
