"""Libraries of other devices that TVM's tests ask for: none is there."""

__all__ = ["exists"]


def exists() -> bool:
    """Whether the library is there."""
    return False
