"""`tvm.contrib.utils`: temporary folders."""

import os
import tempfile

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that is removed when the object is."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.temp_dir = self._folder.name

    def path(self) -> str:
        """The path of the folder."""
        return self.temp_dir

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names of the files in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Removes the folder."""
        self._folder.cleanup()

    def __enter__(self) -> "TempDirectory":
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def tempdir() -> TempDirectory:
    """A new temporary folder."""
    return TempDirectory()
