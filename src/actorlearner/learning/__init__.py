"""From fragments to weights: joining them into batches, learner updates, and the thread that runs them."""
