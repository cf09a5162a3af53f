"""The estimators of scikit-learn's kind on small datasets of sets."""
