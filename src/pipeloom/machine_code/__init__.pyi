from .emitted import emitted_programs as emitted_programs, simulate_emitted as simulate_emitted
from .executed_lines import WavePath as WavePath, walk_wave as walk_wave
