"""Random problems of kernel families: each module draws some, ``families.py`` runs them."""
