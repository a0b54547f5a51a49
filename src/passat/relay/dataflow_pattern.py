"""`relay.dataflow_pattern`: patterns that match, rewrite and partition programs.

from passat.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

class Fused(DFPatternCallback):
    def __init__(self):
        super().__init__()
        self.x, self.y = wildcard(), wildcard()
        self.pattern = is_op("nn.relu")(self.x + self.y)

    def callback(self, pre, post, node_map):
        return fused(node_map[self.x][0], node_map[self.y][0])
"""

from passat.ir.dataflow import pattern
from passat.ir.dataflow.matcher import match
from passat.ir.dataflow.pattern import *  # noqa: F403  # all of them belong here
from passat.ir.dataflow.rewriting import DFPatternCallback, partition, rewrite

__all__ = ["DFPatternCallback", "match", "partition", "rewrite"]
__all__ += pattern.__all__
