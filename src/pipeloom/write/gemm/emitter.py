"""What the GEMM emitters share: registers, setup, fragment reads, matrix instructions, the store.

A kernel's own file says how its ops map to these: which rows a load brings, where a fragment
lies, which accumulators an MMA adds to.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeloom.machine.target import LOAD_BYTES
from pipeloom.reference.compiled import CompiledSchedule
from pipeloom.write.addresses import LDS_WINDOW
from pipeloom.write.allocate import SETUP, STORE, Allocation, Resources, Value, allocate
from pipeloom.write.code import Code
from pipeloom.write.entry import EntryEmitter, LoopRegisters
from pipeloom.write.faults import RegisterLimitError
from pipeloom.write.gemm import scalars as s
from pipeloom.write.gemm import setup
from pipeloom.write.gemm.store import GROUP, RINGS, WORK, StoreScratch, store_tile, subtile_starts
from pipeloom.write.gemm.tile import GemmTile, OperandShape
from pipeloom.write.isa import Bank, Register
from pipeloom.write.plan import Plan, register_lifetimes

WORDS = LOAD_BYTES // 4


class GemmEmitter(EntryEmitter):
    """Base of the shipped kernels."""

    def __init__(
        self,
        tile: GemmTile,
        plan: Plan,
        compiled: CompiledSchedule,
        accumulators: Bank,
        name: str,
    ) -> None:
        self.tile = tile
        self.plan = plan
        self.compiled = compiled
        self.name = name
        self._accumulators = accumulators
        if tile.lds_bytes > tile.chip.lds_bytes:
            raise RegisterLimitError(
                f"the tile takes {tile.lds_bytes} bytes of LDS, but {tile.chip.name} has "
                f"{tile.chip.lds_bytes} for a workgroup",
                hint="make BM, BN or BK smaller",
                field="KernelGeometry.lds_bytes",
            )
        self.allocation = self.places = self._allocate()
        self.arguments = s.ARGUMENTS
        self.geometry = tile.geometry
        self.loop = LoopRegisters(
            s.LOOP_OFFSET, s.LOOP_END, s.WAVE_GROUP, plan.tiles_per_iteration * tile.row_bytes
        )
        self.resources = Resources(
            vgprs=self.places.used[Bank.VECTOR],
            agprs=self.places.used[Bank.ACCUMULATOR],
            sgprs=s.USED,
            lds_bytes=tile.lds_bytes,
            waves=tile.waves,
            chip=tile.chip.name,
            lds_limit=tile.chip.lds_bytes,
        )

    # --- registers --------------------------------------------------------------------------------

    def fragment_values(self) -> list[tuple[str, int, frozenset[int]]]:
        """(name, registers, steps at which it is live) of each bank of the kernel model."""
        return [
            (str(register), self.bank_registers(str(register)), steps)
            for register, steps in register_lifetimes(self.plan, self.compiled).items()
        ]

    def bank_registers(self, bank: str) -> int:
        """How many registers a bank of the kernel model (``A0``, ``staging0``) takes."""
        raise NotImplementedError

    def load_count(self, operand: OperandShape) -> int:
        """Load instructions per wave for a whole K tile of an operand."""
        raise NotImplementedError

    def _windows(self, operand: OperandShape) -> int:
        return -(-self.tile.operand_bytes(operand) // LDS_WINDOW)

    def _allocate(self) -> Allocation:
        tile = self.tile
        steps = frozenset(range(len(self.plan.steps())))
        always = steps | {SETUP, STORE}
        rows, columns = subtile_starts(tile)
        vector, only_setup, only_store = Bank.VECTOR, frozenset({SETUP}), frozenset({STORE})
        values = [Value("thread", vector, 1, always, align=1)]
        for operand in tile.operands:
            values += [
                Value(f"load {operand.name}{i}", vector, 1, steps | {SETUP}, align=1)
                for i in range(self.load_count(operand))
            ]
            values += [
                Value(f"read {operand.name}{w}.{r}", vector, 1, steps | {SETUP}, align=1)
                for w in range(self._windows(operand))
                for r in range(tile.reads_per_row)
            ]
        values += self.more_values(steps)
        total = len(rows) * len(columns) * tile.matrix.accumulator_registers
        values.append(Value("accumulators", self._accumulators, total, always, align=4))
        values += [
            Value(name, vector, count, live, align=4)
            for name, count, live in self.fragment_values()
        ]
        values += [Value(f"setup {i}", vector, 1, only_setup, align=1) for i in range(4)]
        values += [
            Value("store rows", vector, len(rows), only_store, align=1),
            Value("store column", vector, 1, only_store, align=1),
            Value("store offset", vector, GROUP, only_store, align=1),
            Value("store data", vector, GROUP * RINGS, only_store, align=4),
            Value("store work", vector, WORK, only_store, align=1),
        ]
        return allocate(values, tile.chip, tile.waves)

    def more_values(self, steps: frozenset[int]) -> list[Value]:
        """Further values of a kernel, live in its entries."""
        return []

    # --- before and after the entries -------------------------------------------------------------

    def setup(self, code: Code) -> None:
        """Arguments, descriptors, addresses, zeroed accumulators."""
        tile, places = self.tile, self.places
        thread = places["thread"]
        scratch = setup.SetupScratch(*(places[f"setup {i}"] for i in range(4)))
        kernel = self.plan.kernel
        setup.load_arguments(code, thread, scratch.row)
        groups = tuple(kernel.group_of(wave) for wave in range(kernel.waves))
        setup.place_wave(code, tile, groups)
        setup.read_lanes(code, tile, thread, scratch)
        for operand in tile.operands:
            reads = [
                [places[f"read {operand.name}{w}.{r}"] for r in range(tile.reads_per_row)]
                for w in range(self._windows(operand))
            ]
            setup.read_addresses(code, tile, operand, reads, scratch)
        setup.await_arguments(code, tile)
        setup.describe_buffers(code, tile)
        setup.start_loop(code, tile, self.plan.first_tiles)
        for operand in tile.operands:
            loads = [places[f"load {operand.name}{i}"] for i in range(self.load_count(operand))]
            setup.load_offsets(code, tile, operand, thread, loads, scratch)
        self.more_setup(code, thread)
        code.comment("accumulators start at zero")
        accumulators = places["accumulators"]
        zero = "v_accvgpr_write_b32" if accumulators.bank is Bank.ACCUMULATOR else "v_mov_b32"
        for i in range(accumulators.count):
            code(zero, accumulators.part(i), 0)

    def more_setup(self, code: Code, thread: Register) -> None:
        """Further setup of a kernel."""

    def finish(self, code: Code) -> None:
        """Store C."""
        places = self.places
        scratch = StoreScratch(
            *(places[f"store {part}"] for part in ("rows", "column", "offset", "data", "work"))
        )
        store_tile(code, self.tile, places["thread"], self.accumulator, scratch, self.name)

    def accumulator(self, row: int, column: int) -> Register:
        """The registers of one MFMA tile, counted over the wave's whole tile."""
        count = self.tile.matrix.accumulator_registers
        columns = len(subtile_starts(self.tile)[1])
        return self.places["accumulators"].part((row * columns + column) * count, count)

    # --- ops --------------------------------------------------------------------------------------

    def tile_offset(self, code: Code, tile: int) -> Register:
        """The scalar offset of K tile ``loop tile + tile``."""
        offset = tile * self.tile.row_bytes
        if offset == 0:
            return s.LOOP_OFFSET
        code("s_add_u32", s.TILE_OFFSET, s.LOOP_OFFSET, offset)
        return s.TILE_OFFSET

    def read_fragment(
        self,
        code: Code,
        operand: OperandShape,
        stage: int,
        fragment: int,
        reads: Sequence[int],
        result: Register,
    ) -> None:
        """``ds_read_b128`` of every MFMA tile of a fragment and the given reads of its rows."""
        tile = self.tile
        start = tile.fragment_start(operand, stage, fragment)
        for subtile in range(tile.subtiles(operand)):
            offset = start + operand.order.place(subtile * tile.matrix.side) * tile.row_bytes
            window, offset = divmod(offset, LDS_WINDOW)
            for number, read in enumerate(reads):
                code(
                    "ds_read_b128",
                    result.part((subtile * len(reads) + number) * WORDS, WORDS),
                    self.places[f"read {operand.name}{window}.{read}"],
                    offset=offset,
                )

    def multiply(
        self,
        code: Code,
        a: Register,
        b: Register,
        rows: Sequence[int],
        columns: Sequence[int],
        reads: int,
    ) -> None:
        """All MFMAs of rows x columns of the wave's tiles, ``reads`` 16-byte reads deep.

        K outermost: consecutive MFMAs then add to different accumulators.
        """
        words = self.tile.fragment_registers
        mnemonic = self.tile.matrix.mnemonic
        for step in range(reads * WORDS // words):
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    left = a.part(i * reads * WORDS + step * words, words)
                    right = b.part(j * reads * WORDS + step * words, words)
                    c = self.accumulator(row, column)
                    code(mnemonic, c, right, left, c)
