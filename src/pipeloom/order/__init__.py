"""Ways to an order: what comes out is a placement with its bound, whoever asked for it."""
