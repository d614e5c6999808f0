"""A stand-in for HIP, as a compiled ``libamdhip64.so.7`` whose launches run in the emulator."""
