"""Where a result comes from: the rules that led to each node, and certificates of equality that a small checker replays."""
