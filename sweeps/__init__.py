"""Hyperparameter sweeps for the ``actorlearner`` engine: Hydra, Optuna, Ray Tune and MLflow in one command."""

__version__ = "0.1.0"
