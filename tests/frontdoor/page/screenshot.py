"""Takes a picture of the first screen of a page: `python -m tests.frontdoor.page.screenshot PAGE.html PICTURE.png [WIDTH HEIGHT [dark]]`."""

import sys
from pathlib import Path

from tests.frontdoor.page.browser import browser, find_chromium


def main(page: str, picture: str, width: str = "1280", height: str = "900", colors: str = "light") -> None:
    program = find_chromium()
    if program is None:
        sys.exit("there is no Chromium; CHROMIUM may name one")
    with browser(program) as tab:
        tab.open(Path(page), width=int(width), height=int(height), dark=colors == "dark")
        tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        tab.picture(Path(picture))


if __name__ == "__main__":
    main(*sys.argv[1:])
