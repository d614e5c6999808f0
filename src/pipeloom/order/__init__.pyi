from . import in_order as in_order
from . import strategy as strategy
