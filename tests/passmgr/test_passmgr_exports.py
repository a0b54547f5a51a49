"""What `passat.passmgr` exports."""

import passat.passmgr


def test_every_name_exists_has_documentation_and_stands_once() -> None:
    names = passat.passmgr.__all__
    assert names == sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in names:
        assert getattr(passat.passmgr, name).__doc__
