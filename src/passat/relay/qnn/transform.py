"""`relay.qnn.transform`: the passes over quantized operators."""

from passat.passmgr import Pass, Sequential, get_pass

__all__ = ["CanonicalizeOps", "Legalize"]


def CanonicalizeOps() -> Pass:
    """Quantized operators become others: what functions return that are registered for them as FTVMQnnCanonicalize, then what the rules of
    CanonicalQuantized make of them. Convolutions, pooling, products of elements, concatenation, softmax and leaky_relu stay."""
    rules = get_pass("relay._transform.QnnCanonicalizeOps")
    return Sequential([_by_attribute("FTVMQnnCanonicalize"), rules], name="qnn.CanonicalizeOps")


def Legalize() -> Pass:
    """Quantized operators become what the functions return that are registered for them as FTVMQnnLegalize."""
    return _by_attribute("FTVMQnnLegalize")


def _by_attribute(name: str) -> Pass:
    return get_pass("relay._transform.Legalize", attribute=name)
