"""Main loops as MFMA-indexed tables, the way hipBLASLt's engineers write them by hand."""

from pipeloom.cms.export import check_exportable, export_table, left_out, unlike_a_table
from pipeloom.cms.lift import lift_table
from pipeloom.cms.table import SyncEntry, Table, read_table

__all__ = [
    "SyncEntry",
    "Table",
    "check_exportable",
    "export_table",
    "left_out",
    "lift_table",
    "read_table",
    "unlike_a_table",
]
