from . import gemm_trial as gemm_trial
from . import kernel_reporting as kernel_reporting
from . import loop_room as loop_room
from . import measuring as measuring
from . import pipeline as pipeline
from . import running_gemms as running_gemms
from . import witnessing as witnessing
