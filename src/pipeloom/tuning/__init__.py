"""From a shape to the best kernel: a model of the whole GPU, a search, a library."""
