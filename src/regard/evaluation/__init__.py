"""Evaluation: losses, BLEU, chrF, error rates, alignment and attention statistics, significance, final evaluation.

To add a metric, see `regard.evaluation.metrics`.
"""
