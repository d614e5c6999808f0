from .export import check_exportable as check_exportable
from .export import export_table as export_table
from .export import left_out as left_out
from .export import unlike_a_table as unlike_a_table
from .lift import lift_table as lift_table
from .table import SyncEntry as SyncEntry
from .table import Table as Table
from .table import read_table as read_table
