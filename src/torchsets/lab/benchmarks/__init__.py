"""Speed and memory of the hot functions, beside a straightforward implementation."""
