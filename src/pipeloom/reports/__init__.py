"""One report of what was found in kernels, whoever judged them, and the forms it is written in."""
