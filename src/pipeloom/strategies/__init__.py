"""Ways of ordering one iteration, behind one small interface."""
