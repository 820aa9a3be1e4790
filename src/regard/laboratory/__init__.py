"""Experiments with attention: worked examples, and what can be seen, measured and checked in a trained model."""
