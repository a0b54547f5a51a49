"""`relay.qnn.transform`: the passes over quantized operators."""

from passat.passmgr import Pass, get_pass

__all__ = ["CanonicalizeOps", "Legalize"]


def CanonicalizeOps() -> Pass:
    """Quantized operators become what the functions return that are registered for them as FTVMQnnCanonicalize."""
    return get_pass("relay._transform.Legalize", attribute="FTVMQnnCanonicalize")


def Legalize() -> Pass:
    """Quantized operators become what the functions return that are registered for them as FTVMQnnLegalize."""
    return get_pass("relay._transform.Legalize", attribute="FTVMQnnLegalize")
