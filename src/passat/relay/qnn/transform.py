"""`relay.qnn.transform`: the passes over quantized operators."""

from passat.passmgr import Pass, Sequential, get_pass

__all__ = ["CanonicalizeOps", "Legalize"]


def CanonicalizeOps() -> Pass:
    """Lowers quantized operators: first by functions registered for them as FTVMQnnCanonicalize, then by the rules of CanonicalQuantized.
    Convolutions, pooling, elementwise products, concatenation, softmax and leaky_relu stay."""
    rules = get_pass("relay._transform.QnnCanonicalizeOps")
    return Sequential([_by_attribute("FTVMQnnCanonicalize"), rules], name="qnn.CanonicalizeOps")


def Legalize() -> Pass:
    """Replaces quantized operators by the results of functions registered for them as FTVMQnnLegalize."""
    return _by_attribute("FTVMQnnLegalize")


def _by_attribute(name: str) -> Pass:
    return get_pass("relay._transform.Legalize", attribute=name)
