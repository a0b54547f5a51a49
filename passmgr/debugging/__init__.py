"""Which pass is to blame: bisection over passes, and folders that reproduce a crash."""
