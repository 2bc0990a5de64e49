"""From weights to fragments: the vectorised sampler, and the Ray workers that run it elsewhere."""
