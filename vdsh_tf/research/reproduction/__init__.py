"""The paper's experiments: points to compute, and a report made of them."""
