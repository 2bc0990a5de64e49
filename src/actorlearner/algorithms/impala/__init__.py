"""IMPALA: importance-weighted actor-learner with V-trace."""
