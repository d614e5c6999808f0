"""Programs to machine code: what each step is in instructions, by what it does and where."""
