"""`tvm.te.schedule`: schedules, and their lowering step by step."""

from passat.ir.te.bounds import infer_bound as InferBound  # TVM's name
from passat.ir.te.lower import schedule_ops as ScheduleOps  # TVM's name
from passat.ir.te.lower import to_prim_func as SchedulePostProcToPrimFunc  # TVM's name
from passat.ir.te.schedule import Schedule, Stage, create_schedule
from passat.ir.tir.buffer import Buffer

__all__ = ["Buffer", "InferBound", "Schedule", "ScheduleOps", "SchedulePostProcToPrimFunc", "Stage", "create_schedule"]
