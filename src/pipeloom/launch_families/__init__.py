"""Launches of kernels whose family is known, drafted from metadata and sizes. See ``drafts``."""
