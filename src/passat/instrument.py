"""`tvm.instrument`: instruments that run around passes."""

from typing import TYPE_CHECKING

from passat.passmgr import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from passat.relay.names import missing_name

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "pass_instrument",
]


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("instrument", __all__)
