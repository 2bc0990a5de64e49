"""Pure functions on tensors: V-trace."""
