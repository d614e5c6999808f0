from . import gemm_trial as gemm_trial
from . import measuring as measuring
from . import running_gemms as running_gemms
from . import witnessing as witnessing
