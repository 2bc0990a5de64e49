"""Pure functions on tensors: V-trace and action distributions."""
