"""The constants of the model, refitted to measurements: which the data determine, and how well.

    fitted = calibrate(measurements, GFX950)
    fitted.constants["lds_latency"].value, .low, .high, .determined
    write_file("mine.toml", chip_text(GFX950, {"lds_latency": (72, "who measured it")}, "mine"))

``measurements`` is what was measured and how the model sees it, ``refitting`` finds values for
which the two agree, and says which constants the data contradict and which they cannot know,
``probes`` are the loops that determine most of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
