"""The schema of isa.csv, what the compiler made of each kernel; the tables of a run folder are in `columns`."""

from .columns import SIZES, ColumnSchema, ColumnType, TableSchema, _float, _int, _text

_ISA_COUNTS = (
    ("instructions", "instructions; two that are issued as one count once"),
    ("matrix", "matrix instructions: mfma, wmma; mma, wgmma, tcgen05"),
    *(
        (f"{what}_{width}", f"{what}s of global memory, {size}")
        for what in ("load", "store")
        for width, size in (
            ("byte", "1 byte per lane"),
            ("short", "2 bytes per lane"),
            ("dword", "4 bytes per lane"),
            ("dwordx2", "8 or 12 bytes per lane"),
            ("dwordx4", "16 bytes or more per lane"),
            ("bulk", "a whole tile at once (TMA)"),
        )
    ),
    ("atomic", "atomic operations"),
    ("lds_load", "loads from shared memory (LDS)"),
    ("lds_store", "stores to shared memory (LDS)"),
    ("shuffle", "exchange between lanes: SHFL, ds_bpermute"),
    ("scratch", "loads and stores of scratch memory, where spilled registers are"),
    ("convert", "conversions between types"),
    ("acc_move", "moves to and from accumulation registers (AMD) or tensor memory (NVIDIA)"),
    ("valu", "all other vector instructions"),
    ("scalar", "scalar instructions; on NVIDIA those of the uniform datapath and constant loads"),
    ("branch", "jumps and ends"),
    ("sync", "barriers, waits and fences"),
    ("other", "hints, padding and reads of special registers"),
)

ISA = TableSchema(
    "isa",
    "what the compiler made of each kernel: one row per architecture, provider, configuration and specialization",
    (
        _text("arch", "architecture that it was compiled for", True),
        _text("provider", "the implementation", True),
        _text("op", "operation", True),
        _text("pass", "fwd; training passes have their own names", True),
        _text("dtype", "activation and output type", True),
        _text("scheme", "storage of the operands", True),
        *SIZES,
        _int(
            "problems", "problems of the suite that this binary serves; its sizes are those of the first", required=True
        ),
        ColumnSchema("config", ColumnType.JSON, "configuration that was compiled"),
        ColumnSchema("default", ColumnType.BOOL, "it is the provider's default for that problem", required=True),
        _text("kernel", "name of the kernel; empty when there is none"),
        _text("part", "part of the launch that it computes, where one kernel serves several"),
        _text("verdict", "passed, unsupported, compile_error, timeout, crashed or runtime_error", True),
        _text("reason", "why it is not passed, or what the compiler complained of without giving up"),
        ColumnSchema(
            "specialization",
            ColumnType.JSON,
            "what the compiler knew of each argument: its type, :16 for a multiple of 16, :2GiB for less than that",
        ),
        _int("vgprs", "vector registers per lane, without accumulation registers"),
        _int("agprs", "accumulation registers per lane (AMD, gfx9)"),
        _int("sgprs", "scalar registers per wave (AMD)"),
        _int("spilled_vgprs", "vector registers that the compiler moved to memory (AMD)"),
        _int("spilled_sgprs", "scalar registers that it moved to memory or into lanes of vector registers (AMD)"),
        ColumnSchema(
            "scratch_bytes",
            ColumnType.INT,
            "scratch memory per lane: spilled registers and stack",
            "byte",
            "lower",
        ),
        ColumnSchema("shared_bytes", ColumnType.INT, "shared memory (LDS) per program", "byte"),
        _int("warps", "warps (waves) per program"),
        ColumnSchema(
            "occupancy",
            ColumnType.FLOAT,
            "resident waves per SIMD (AMD) or warps per SM (NVIDIA), by registers, shared memory and slots",
            "",
            "higher",
        ),
        _int("occupancy_slots", "most that the hardware holds"),
        _text("occupancy_limit", "what limits it: registers, shared or slots"),
        _text("matrix_instructions", "names of the matrix instructions: AMD's assembly, NVIDIA's PTX"),
        *(_int(name, f"whole kernel: {description}") for name, description in _ISA_COUNTS),
        *(_int(f"loop_{name}", f"main loop: {description}") for name, description in _ISA_COUNTS),
        _int("decoded", "weight elements that a program decodes per iteration of its main loop"),
        _int("decoded_weights", "weight elements that the whole launch decodes, for the sizes of the row"),
        _float(
            "decode_per_weight",
            "conversions and other vector instructions of the main loop, of all lanes, per weight element decoded: "
            "address arithmetic and the multiply-adds of a kernel without matrix instructions included",
            "",
            "lower",
        ),
        _float(
            "decode_integer_per_weight",
            "those of them that issue at the rate of shifts and logic; empty on AMD, which issues them at the rate of "
            "all others",
            "",
            "lower",
        ),
        _text("code", "hash of the machine code: equal for equal binaries"),
        _text("triton", "version of the compiler"),
    ),
)
"""The table of `rooflens isa`; no run folder has one."""
